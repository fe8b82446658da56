package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
)

// A Plan is the result of planning a gang.
type Plan struct {
	Assignments []*planning.Assignment
	// Reason says why there are no assignments.
	Reason string
	// Again is set if the next attempt may have another result although nothing has changed.
	Again bool
}

// A PlanFunc plans a gang: at least need of the waiting pods must get an assignment. The error says why the gang cannot be
// scheduled for the moment.
type PlanFunc func(ctx context.Context, group *Group, members *Members, need int) (*Plan, error)

// longestMemory is the time after which an attempt plans a gang again although no known event may have helped the gang.
const longestMemory = 10 * time.Second

// lookAgain is the shortest time after which a gang whose PodGroup was not found is tried again without any event, so that the
// reason stays right. An event comes when there is a PodGroup. The time grows with how long the reason has been the same, up
// to longestTrust, and with the number of gangs that wait: perLook is the time for each.
const lookAgain, perLook = 10 * time.Second, 100 * time.Millisecond

// mostTries limits the attempts that begin with an assignment and end before the pod is reserved, although no plugin rejects the
// assignment: attempts that end in errors.
const mostTries = 3

// Begin starts an attempt to schedule a pod, and stores the pod's assignment in the cycle state. It returns no assignment if the pod
// can go to any node that fits, regardless of others: the pod is in no gang, or enough pods of its gang have nodes. The
// error says why the pod must wait.
func (c *Coordinator) Begin(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, plan PlanFunc) (*planning.Assignment, error) {
	key := crd.KeyOf(pod)
	if key == "" {
		return nil, nil
	}
	assignment := c.progress.Of(pod.UID)
	if assignment == nil {
		var err error
		if assignment, err = c.plan(ctx, key, cs, pod, nodes, plan); assignment == nil {
			return nil, err
		}
	}
	if first := c.progress.Awaits(pod.UID); len(first) > 0 {
		return nil, fmt.Errorf("group %s: pod %s is reserved first because this pod depends on where that is", key, first[0].Name)
	}
	if c.progress.Try(assignment) > mostTries {
		c.fail(assignment)
		return nil, fmt.Errorf("group %s: pod %s could not be reserved in %d attempts; all pods of the group are planned again", key, pod.Name, mostTries)
	}
	cs.Write(assignmentKey, assignmentState{assignment})
	return assignment, nil
}

// plan plans the gang of a pod without an assignment, unless a plan is known to be useless for the moment.
func (c *Coordinator) plan(ctx context.Context, key string, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, plan PlanFunc) (*planning.Assignment, error) {
	if c.misses(key) {
		return nil, errCarried(key)
	}
	stirred := c.answer(key)
	group, err := c.lookup(pod, crd.NameOf(pod))
	if err != nil {
		return nil, c.refuse(key, pod, refusal{reason: err.Error(), missing: true})
	}
	members := c.count(pod)
	need := group.MinMember - len(members.Assigned) - group.Succeeded
	if need <= 0 {
		c.letGo(key, pod)
		return nil, nil
	}
	if err := exist(group, members); err != nil {
		return nil, c.refuse(key, pod, refusal{reason: err.Error(), pause: shortestPause, few: true})
	}
	if reason := c.known(key, stirred); reason != "" {
		return nil, errors.New(reason)
	}
	start := time.Now()
	if c.judge(members, pod); len(members.Waiting) < need {
		return nil, c.refuse(key, pod, refusal{reason: errHeld(group, members).Error(), incomplete: true, took: time.Since(start)})
	}
	cs.Write(plannedKey, hasPlanned{})
	ordered := slices.ContainsFunc(members.Waiting, filters.IsOrdered)
	if err := c.Enough(group, nodes); err != nil {
		return nil, c.refuse(key, pod, refusal{reason: err.Error(), tried: true, misfit: true, ordered: ordered, took: time.Since(start)})
	}
	planned, err := plan(ctx, group, members, need)
	if err == nil && len(planned.Assignments) > 0 {
		err = c.hold(group, planned.Assignments)
	}
	took := time.Since(start)
	switch {
	case err != nil:
		return nil, c.refuse(key, pod, refusal{reason: fmt.Sprintf("group %s: %v", key, err), tried: true, ordered: ordered, took: took, again: true})
	case len(planned.Assignments) == 0:
		return nil, c.refuse(key, pod, refusal{reason: fmt.Sprintf("group %s: %s", key, planned.Reason), tried: true, misfit: !planned.Again,
			ordered: ordered, took: took, again: planned.Again})
	}
	klog.FromContext(ctx).V(2).Info("Planned a group", "podGroup", key, "pods", len(planned.Assignments), "minMember", group.MinMember, "took", took)
	c.start(group, need, planned.Assignments, pod)
	if assignment := c.progress.Of(pod.UID); assignment != nil {
		return assignment, nil
	}
	if c.misses(key) {
		return nil, errCarried(key)
	}
	return nil, fmt.Errorf("group %s: one of its pods is gone since that was planned; all of them are planned again in a moment", key)
}

func errCarried(gang string) error {
	return fmt.Errorf("group %s: other pods of the group are being scheduled; waiting for that to be done", gang)
}
