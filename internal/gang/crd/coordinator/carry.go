package coordinator

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

const (
	// grace is added to the time for which pods wait for others of their gang. The sum limits the time for the whole plan,
	// so that pods that never get as far as waiting are noticed.
	grace = 5 * time.Second
	// firstLook is the time after which pods that are not reserved yet are tried again for the first time. It doubles after
	// each look, up to longestPause.
	firstLook = time.Second
)

// start begins to carry out the plan of a gang: its pods take their assignments. The attempt for the pod trying is under way already.
func (c *Coordinator) start(group *Group, need int, assignments []*planning.Assignment, trying *v1.Pod) {
	c.begun(group.Name)
	c.progress.Begin(group.Name, need, assignments)
	var pods []*v1.Pod
	for _, assignment := range assignments {
		known := informer.Object[v1.Pod](c.pods, assignment.Pod.Namespace+"/"+assignment.Pod.Name)
		if known == nil || known.UID != assignment.Pod.UID || known.Spec.NodeName != "" {
			c.fail(assignment) // This happened during the planning, and no other event will report it.
			continue
		}
		if assignment.Pod.UID != trying.UID && len(assignment.After) == 0 {
			pods = append(pods, assignment.Pod)
		}
	}
	c.activate(pods)
	c.lookAfter(assignments, time.Now().Add(c.timeout(group)+grace), firstLook)
}

// lookAfter checks after a pause whether the assignments' pods are reserved. It retries those that are not, and gives up their
// assignments when the plan is due.
func (c *Coordinator) lookAfter(assignments []*planning.Assignment, due time.Time, pause time.Duration) {
	time.AfterFunc(min(pause, time.Until(due)), func() {
		late := c.late(assignments)
		switch {
		case len(late) == 0:
		case time.Now().Before(due):
			c.push(late)
			c.lookAfter(late, due, min(2*pause, longestPause))
		default:
			klog.Background().V(2).Info("A pod of a group was not reserved in time where that was planned; planning the group again",
				"podGroup", late[0].Gang, "pod", klog.KObj(late[0].Pod))
			for _, assignment := range late {
				c.fail(assignment)
			}
		}
	})
}

// late returns the assignments whose pods are not reserved yet.
func (c *Coordinator) late(assignments []*planning.Assignment) (late []*planning.Assignment) {
	for _, assignment := range assignments {
		if c.progress.IsPlanned(assignment) {
			late = append(late, assignment)
		}
	}
	return late
}

// push retries pods that have an assignment and are not reserved. A pod may not have been back in the queue when it got its assignment,
// and a failed attempt ends the pod's nomination.
func (c *Coordinator) push(late []*planning.Assignment) {
	var pods []*v1.Pod
	for _, assignment := range late {
		c.nominate(assignment)
		if len(c.progress.Awaits(assignment.Pod.UID)) == 0 {
			pods = append(pods, assignment.Pod)
		}
		if handle := c.handle(assignment.Pod); handle != nil && !c.progress.IsPlanned(assignment) {
			handle.DeleteNominatedPodIfExists(assignment.Pod) // It was reserved, or given up, in the meantime.
		}
	}
	c.activate(pods)
}

// nominate nominates a pod for the node of its assignment, in memory only. This keeps the resources other than devices for the pod.
func (c *Coordinator) nominate(assignment *planning.Assignment) {
	handle := c.handle(assignment.Pod)
	info, err := kube.NewPodInfo(assignment.Pod)
	if handle == nil || err != nil {
		return
	}
	handle.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: assignment.Node})
}
