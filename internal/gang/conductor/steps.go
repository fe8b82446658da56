package conductor

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
)

// Permit has a pod wait until all pods of its gang are reserved; the last one lets the others go.
func (c *Conductor) Permit(cs fwk.CycleState, pod *v1.Pod, plugin string) (*fwk.Status, time.Duration) {
	seat := SeatIn(cs)
	if seat == nil {
		return nil, 0
	}
	all, others, err := c.roster.Reserve(seat)
	if err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error()), 0
	}
	if !all {
		c.activate(c.freed(pod, others))
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("waiting for the other pods of group %s to be reserved", seat.Gang)), c.timeoutOf(seat)
	}
	for _, other := range others {
		if handle := c.handle(other); handle != nil {
			if waits := handle.GetWaitingPod(other.UID); waits != nil {
				waits.Allow(plugin)
			}
		}
	}
	return nil, 0
}

// freed returns the pods that waited for a pod to be reserved.
func (c *Conductor) freed(pod *v1.Pod, others []*v1.Pod) (pods []*v1.Pod) {
	for _, other := range others {
		if seat := c.roster.Of(other.UID); seat != nil && slices.Contains(seat.After, pod.UID) {
			pods = append(pods, other)
		}
	}
	return pods
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
	if seat := SeatIn(cs); seat != nil && c.roster.Bound(seat) {
		c.end(seat)
		c.settled(seat.Gang)
	}
}

// Failed ends what is kept for a pod whose attempt came to nothing. Unless they are about to be bound, so do the attempts
// of all others of its gang, and the gang is planned again after a pause.
func (c *Conductor) Failed(cs fwk.CycleState) {
	if seat := SeatIn(cs); seat != nil {
		c.fail(seat)
	}
}

// fail is Failed for a seat that may have ended.
func (c *Conductor) fail(failed *roster.Seat) {
	ended := c.roster.Leave(failed)
	if len(ended) == 0 {
		return
	}
	for _, seat := range ended {
		c.end(seat)
		if handle := c.handle(seat.Pod); handle != nil {
			handle.DeleteNominatedPodIfExists(seat.Pod)
		}
	}
	c.reject(ended)
	// One that was just about to wait is found waiting a moment later.
	time.AfterFunc(shortestPause/2, func() { c.reject(ended) })
	c.retry(failed)
	c.settled(failed.Gang)
}

// reject ends the waiting of pods whose seats have ended; the first one has caused that.
func (c *Conductor) reject(ended []*roster.Seat) {
	for _, seat := range ended[1:] {
		handle := c.handle(seat.Pod)
		if handle == nil || c.roster.Of(seat.Pod.UID) != nil {
			continue
		}
		if waits := handle.GetWaitingPod(seat.Pod.UID); waits != nil {
			waits.Reject("Quartermaster", fmt.Sprintf("pod %s of group %s could not be scheduled", ended[0].Pod.Name, seat.Gang))
		}
	}
}

// settled has pods tried that waited for the plan of their gang to be carried out, once it is.
func (c *Conductor) settled(gang string) {
	if _, carried := c.roster.Carried(gang); !carried {
		c.Stir(gang)
	}
}

// Seat returns what is planned for a pod, nil if nothing is.
func (c *Conductor) Seat(pod types.UID) *roster.Seat { return c.roster.Of(pod) }
