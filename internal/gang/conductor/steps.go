package conductor

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
	"github.com/quartermaster-dra/quartermaster/internal/podstatus"
)

// Permit has a pod wait until all pods of its gang are reserved; the last one lets the others go.
func (c *Conductor) Permit(cs fwk.CycleState, pod *v1.Pod, plugin string) (*fwk.Status, time.Duration) {
	seat := SeatIn(cs)
	c.getUnderway(cs, pod, seat)
	if seat == nil {
		return nil, 0
	}
	all, others, err := c.roster.Reserve(seat)
	if err != nil {
		return podstatus.Of(fwk.Unschedulable, err), 0
	}
	if !all {
		c.activate(others)
		return podstatus.Newf(fwk.Wait, "waiting for the other pods of group %s to be reserved", seat.Gang), c.timeoutOf(seat)
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

// timeoutOf is how long a pod waits for the others of its gang.
func (c *Conductor) timeoutOf(seat *roster.Seat) time.Duration {
	if group, err := c.lookup(seat.Pod, coscheduling.NameOf(seat.Pod)); err == nil {
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

// Committed is called when all claims of a pod are written. It returns when the pod may be bound: when those of all pods
// of its gang are. The error is why it may not. It does not take long: each of the others is either committed or fails.
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

// Bound ends what is kept for a pod that is bound.
func (c *Conductor) Bound(cs fwk.CycleState) {
	c.arrived(cs)
	if seat := SeatIn(cs); seat != nil && c.roster.Bound(seat) {
		c.end(seat)
		c.settled(seat.Gang, true)
	}
}

// Postponed is called instead of Failed if a pod has to wait for something that others do for it. It keeps its seat, however
// often that happens, for as long as the whole plan may take.
func (c *Conductor) Postponed(cs fwk.CycleState) {
	if seat := SeatIn(cs); seat != nil {
		c.roster.Untry(seat)
	}
}

// Failed ends what is kept for a pod whose attempt came to nothing. Unless they are about to be bound, so do the attempts
// of all others of its gang, and the gang is planned again after a pause.
func (c *Conductor) Failed(cs fwk.CycleState) {
	undone := c.undone(cs)
	if seat := SeatIn(cs); seat != nil {
		c.fail(seat)
	}
	if undone != nil {
		c.stirWaiting(coscheduling.KeyOf(undone)) // Others may have waited for that, or counted on this one.
	}
}

// Unfit is Failed for an attempt that found no node that suits the pod, whether it began with the pod's seat or was rejected
// before that. It returns the seat that has ended, nil if there was none, or if others have to be reserved first.
func (c *Conductor) Unfit(cs fwk.CycleState, pod *v1.Pod) *roster.Seat {
	seat := SeatIn(cs)
	if now := c.roster.Of(pod.UID); now != nil && len(c.roster.Awaits(pod.UID)) == 0 {
		seat = now
	}
	if seat != nil {
		c.fail(seat)
	}
	return seat
}

// fail is Failed for a seat that may have ended.
func (c *Conductor) fail(failed *roster.Seat) {
	ended, reserved := c.roster.Leave(failed)
	if len(ended) == 0 {
		return
	}
	c.giveUp(ended, "its pod "+failed.Pod.Name+" could not be scheduled where that was planned")
	c.allow(reserved, pluginName)
}

// giveUp ends what is kept for the seats of a gang that have ended, the attempts that began with them, and has the gang
// planned again.
func (c *Conductor) giveUp(ended []*roster.Seat, why string) {
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

// pluginName is in whose name pods wait.
const pluginName = "Quartermaster"

// rejectAgain is how often the waiting of pods whose seats have ended is ended again: one that is about to wait when that
// happens is found waiting a moment later.
const rejectAgain = 100 * time.Millisecond

// reject ends the waiting of pods whose seats have ended, until none of these attempts waits.
func (c *Conductor) reject(ended []*roster.Seat, why string) {
	var left []*roster.Seat
	for _, seat := range ended {
		if !c.mayWait(seat) {
			continue
		}
		left = append(left, seat)
		if handle := c.handle(seat.Pod); handle != nil {
			if waits := handle.GetWaitingPod(seat.Pod.UID); waits != nil {
				waits.Reject(pluginName, podstatus.Text(why))
			}
		}
	}
	if len(left) > 0 {
		time.AfterFunc(rejectAgain, func() { c.reject(left, why) })
	}
}

// mayWait reports whether the attempt that began with a seat may wait in Permit, now or in a moment.
func (c *Conductor) mayWait(seat *roster.Seat) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	u := c.underway[seat.Pod.UID]
	return u != nil && u.seat == seat && !u.passed
}

// settled has pods tried that waited for the plan of their gang to be carried out, once it is.
func (c *Conductor) settled(gang string, bound bool) {
	if _, carried := c.roster.Carried(gang); carried {
		return
	}
	if bound {
		c.succeeded(gang)
	}
	c.Stir(gang)
}

// Seat returns what is planned for a pod, nil if nothing is.
func (c *Conductor) Seat(pod types.UID) *roster.Seat { return c.roster.Of(pod) }
