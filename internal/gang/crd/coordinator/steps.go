package coordinator

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Permit makes a pod wait until all pods of its gang are reserved. The last one lets the others go.
func (c *Coordinator) Permit(cs fwk.CycleState, pod *v1.Pod, plugin string) (*fwk.Status, time.Duration) {
	assignment := AssignmentIn(cs)
	c.getUnderway(cs, pod, assignment)
	if assignment == nil {
		return nil, 0
	}
	all, others, err := c.progress.Reserve(assignment)
	if err != nil {
		return kube.Of(fwk.Unschedulable, err), 0
	}
	if !all {
		c.activate(others)
		return kube.Newf(fwk.Wait, "waiting for the other pods of group %s to be reserved", assignment.Gang), c.timeoutOf(assignment)
	}
	c.allow(others, plugin)
	return nil, 0
}

// allow ends the waiting of pods in Permit.
func (c *Coordinator) allow(pods []*v1.Pod, plugin string) {
	for _, pod := range pods {
		if handle := c.handle(pod); handle != nil {
			if waits := handle.GetWaitingPod(pod.UID); waits != nil {
				waits.Allow(plugin)
			}
		}
	}
}

// timeoutOf returns how long a pod waits for the others of its gang.
func (c *Coordinator) timeoutOf(assignment *planning.Assignment) time.Duration {
	if group, err := c.lookup(assignment.Pod, crd.NameOf(assignment.Pod)); err == nil {
		return c.timeout(group)
	}
	return c.timeout(&Group{})
}

func (c *Coordinator) timeout(group *Group) time.Duration {
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
func (c *Coordinator) Committed(ctx context.Context, cs fwk.CycleState) error {
	assignment := AssignmentIn(cs)
	if assignment == nil {
		return nil
	}
	c.pass(cs)
	settled, err := c.progress.Commit(assignment)
	if err != nil {
		return err
	}
	select {
	case <-settled:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.progress.Verdict(assignment)
}

// Bound ends everything that is kept for a pod that is bound.
func (c *Coordinator) Bound(cs fwk.CycleState) {
	c.arrived(cs)
	if assignment := AssignmentIn(cs); assignment != nil && c.progress.Bound(assignment) {
		c.end(assignment)
		c.settled(assignment.Gang, true)
	}
}

// Postponed is called instead of Failed if a pod must wait for an answer of another component. The pod keeps its assignment,
// however often that happens, for as long as the whole plan may take.
func (c *Coordinator) Postponed(cs fwk.CycleState) {
	if assignment := AssignmentIn(cs); assignment != nil {
		c.progress.Untry(assignment)
	}
}

// Failed ends everything that is kept for a pod whose attempt failed. The attempts of all other pods of its gang fail as
// well, unless the pods are about to be bound or enough of them are left, and the gang is planned again after a pause.
func (c *Coordinator) Failed(cs fwk.CycleState) {
	undone := c.undone(cs)
	if assignment := AssignmentIn(cs); assignment != nil {
		c.fail(assignment)
	}
	if undone != nil {
		c.stirWaiting(crd.KeyOf(undone)) // Other pods may have waited for the rollback, or counted on this pod.
	}
}

// Unfit does the same as Failed for an attempt that found no suitable node, whether it began with the pod's assignment or was
// rejected before that. It returns the assignment that has ended, nil if there was none or if other pods must be reserved first.
func (c *Coordinator) Unfit(cs fwk.CycleState, pod *v1.Pod) *planning.Assignment {
	assignment := AssignmentIn(cs)
	if now := c.progress.Of(pod.UID); now != nil && len(c.progress.Awaits(pod.UID)) == 0 {
		assignment = now
	}
	if assignment != nil {
		c.fail(assignment)
	}
	return assignment
}

// fail does the same as Failed for an assignment, which may have ended before.
func (c *Coordinator) fail(failed *planning.Assignment) {
	ended, reserved := c.progress.Leave(failed)
	if len(ended) == 0 {
		return
	}
	c.giveUp(ended, "its pod "+failed.Pod.Name+" could not be scheduled where that was planned")
	c.allow(reserved, pluginName)
}

// giveUp ends everything that is kept for the ended assignments of a gang and the attempts that began with them, and schedules
// another plan.
func (c *Coordinator) giveUp(ended []*planning.Assignment, why string) {
	gang := ended[0].Gang
	for _, assignment := range ended {
		c.end(assignment)
		if handle := c.handle(assignment.Pod); handle != nil {
			handle.DeleteNominatedPodIfExists(assignment.Pod)
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

// reject rejects the pods of ended assignments in Permit, and repeats that until none of these attempts waits.
func (c *Coordinator) reject(ended []*planning.Assignment, why string) {
	var left []*planning.Assignment
	for _, assignment := range ended {
		if !c.mayWait(assignment) {
			continue
		}
		left = append(left, assignment)
		if handle := c.handle(assignment.Pod); handle != nil {
			if waits := handle.GetWaitingPod(assignment.Pod.UID); waits != nil {
				waits.Reject(pluginName, kube.Text(why))
			}
		}
	}
	if len(left) > 0 {
		time.AfterFunc(rejectAgain, func() { c.reject(left, why) })
	}
}

// mayWait reports whether the attempt that began with an assignment may wait in Permit, now or in a moment.
func (c *Coordinator) mayWait(assignment *planning.Assignment) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	u := c.underway[assignment.Pod.UID]
	return u != nil && u.assignment == assignment && !u.passed
}

// settled retries the pods that waited for the end of their gang's plan, once the plan has ended.
func (c *Coordinator) settled(gang string, bound bool) {
	if _, carried := c.progress.Carried(gang); carried {
		return
	}
	if bound {
		c.succeeded(gang)
	}
	c.Stir(gang)
}

// Assignment returns the assignment of a pod, nil if it has none.
func (c *Coordinator) Assignment(pod types.UID) *planning.Assignment { return c.progress.Of(pod) }
