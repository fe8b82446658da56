package coordinator

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Permit makes a pod wait until all pods of its gang are reserved. The last one lets the others go.
func (c *Conductor) Permit(cs fwk.CycleState, pod *v1.Pod, plugin string) (*fwk.Status, time.Duration) {
	seat := SeatIn(cs)
	c.getUnderway(cs, pod, seat)
	if seat == nil {
		return nil, 0
	}
	all, others, err := c.roster.Reserve(seat)
	if err != nil {
		return kube.Of(fwk.Unschedulable, err), 0
	}
	if !all {
		c.activate(others)
		return kube.Newf(fwk.Wait, "waiting for the other pods of group %s to be reserved", seat.Gang), c.timeoutOf(seat)
	}
	c.allow(others, plugin)
	return nil, 0
}

// allow ends the waiting of pods in Permit.
func (c *Conductor) allow(pods []*v1.Pod, plugin string) {
	for _, pod := range pods {
		if handle := c.handle(pod); handle != nil {
			if waits := handle.GetWaitingPod(pod.UID); waits != nil {
				waits.Allow(plugin)
			}
		}
	}
}

// timeoutOf returns how long a pod waits for the others of its gang.
func (c *Conductor) timeoutOf(seat *Seat) time.Duration {
	if group, err := c.lookup(seat.Pod, crd.NameOf(seat.Pod)); err == nil {
		return c.timeout(group)
	}
	return c.timeout(&Group{})
}

func (c *Conductor) timeout(group *Group) time.Duration {
	if group.Timeout > 0 {
		return group.Timeout
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.times.Permit
}

// Committed is called when all claims of a pod are written. It returns nil once the claims of all pods of its gang are
// written, so that the pod may be bound, or an error if the pod must not be bound. It does not take long: each of the
// others is either committed or fails.
func (c *Conductor) Committed(ctx context.Context, cs fwk.CycleState) error {
	seat := SeatIn(cs)
	if seat == nil {
		return nil
	}
	c.pass(cs)
	settled, err := c.roster.Commit(seat)
	if err != nil {
		return err
	}
	select {
	case <-settled:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.roster.Verdict(seat)
}

// Bound ends everything that is kept for a pod that is bound.
func (c *Conductor) Bound(cs fwk.CycleState) {
	c.arrived(cs)
	if seat := SeatIn(cs); seat != nil && c.roster.Bound(seat) {
		c.end(seat)
		c.settled(seat.Gang, true)
	}
}

// Postponed is called instead of Failed if a pod must wait for an answer of another component. The pod keeps its seat,
// however often that happens, for as long as the whole plan may take.
func (c *Conductor) Postponed(cs fwk.CycleState) {
	if seat := SeatIn(cs); seat != nil {
		c.roster.Untry(seat)
	}
}

// Failed ends everything that is kept for a pod whose attempt failed. The attempts of all other pods of its gang fail as
// well, unless the pods are about to be bound or enough of them are left, and the gang is planned again after a pause.
func (c *Conductor) Failed(cs fwk.CycleState) {
	undone := c.undone(cs)
	if seat := SeatIn(cs); seat != nil {
		c.fail(seat)
	}
	if undone != nil {
		c.stirWaiting(crd.KeyOf(undone)) // Other pods may have waited for the rollback, or counted on this pod.
	}
}

// Unfit does the same as Failed for an attempt that found no suitable node, whether it began with the pod's seat or was
// rejected before that. It returns the seat that has ended, nil if there was none or if other pods must be reserved first.
func (c *Conductor) Unfit(cs fwk.CycleState, pod *v1.Pod) *Seat {
	seat := SeatIn(cs)
	if now := c.roster.Of(pod.UID); now != nil && len(c.roster.Awaits(pod.UID)) == 0 {
		seat = now
	}
	if seat != nil {
		c.fail(seat)
	}
	return seat
}

// fail does the same as Failed for a seat, which may have ended before.
func (c *Conductor) fail(failed *Seat) {
	ended, reserved := c.roster.Leave(failed)
	if len(ended) == 0 {
		return
	}
	c.giveUp(ended, "its pod "+failed.Pod.Name+" could not be scheduled where that was planned")
	c.allow(reserved, pluginName)
}

// giveUp ends everything that is kept for the ended seats of a gang and the attempts that began with them, and schedules
// another plan.
func (c *Conductor) giveUp(ended []*Seat, why string) {
	gang := ended[0].Gang
	for _, seat := range ended {
		c.end(seat)
		if handle := c.handle(seat.Pod); handle != nil {
			handle.DeleteNominatedPodIfExists(seat.Pod)
		}
	}
	c.retry(gang, why)
	c.reject(ended, "group "+gang+": "+why)
	c.settled(gang, false)
}

// pluginName is the plugin in whose name pods wait in Permit.
const pluginName = "Quartermaster"

// rejectAgain is the interval at which reject repeats: a pod that is about to wait in Permit is found waiting only a moment
// later.
const rejectAgain = 100 * time.Millisecond

// reject rejects the pods of ended seats in Permit, and repeats that until none of these attempts waits.
func (c *Conductor) reject(ended []*Seat, why string) {
	var left []*Seat
	for _, seat := range ended {
		if !c.mayWait(seat) {
			continue
		}
		left = append(left, seat)
		if handle := c.handle(seat.Pod); handle != nil {
			if waits := handle.GetWaitingPod(seat.Pod.UID); waits != nil {
				waits.Reject(pluginName, kube.Text(why))
			}
		}
	}
	if len(left) > 0 {
		time.AfterFunc(rejectAgain, func() { c.reject(left, why) })
	}
}

// mayWait reports whether the attempt that began with a seat may wait in Permit, now or in a moment.
func (c *Conductor) mayWait(seat *Seat) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	u := c.underway[seat.Pod.UID]
	return u != nil && u.seat == seat && !u.passed
}

// settled retries the pods that waited for the end of their gang's plan, once the plan has ended.
func (c *Conductor) settled(gang string, bound bool) {
	if _, carried := c.roster.Carried(gang); carried {
		return
	}
	if bound {
		c.succeeded(gang)
	}
	c.Stir(gang)
}

// Seat returns the seat of a pod, nil if it has none.
func (c *Conductor) Seat(pod types.UID) *Seat { return c.roster.Of(pod) }
