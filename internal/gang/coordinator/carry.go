package coordinator

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

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

// start begins to carry out the plan of a gang: its pods take their seats. The attempt for the pod trying is under way already.
func (c *Conductor) start(group *Group, need int, seats []*Seat, trying *v1.Pod) {
	c.begun(group.Name)
	c.roster.Begin(group.Name, need, seats)
	var pods []*v1.Pod
	for _, seat := range seats {
		known := informer.Object[v1.Pod](c.pods, seat.Pod.Namespace+"/"+seat.Pod.Name)
		if known == nil || known.UID != seat.Pod.UID || known.Spec.NodeName != "" {
			c.fail(seat) // This happened during the planning, and no other event will report it.
			continue
		}
		if seat.Pod.UID != trying.UID && len(seat.After) == 0 {
			pods = append(pods, seat.Pod)
		}
	}
	c.activate(pods)
	c.lookAfter(seats, time.Now().Add(c.timeout(group)+grace), firstLook)
}

// lookAfter checks after a pause whether the seats' pods are reserved. It retries those that are not, and gives up their
// seats when the plan is due.
func (c *Conductor) lookAfter(seats []*Seat, due time.Time, pause time.Duration) {
	time.AfterFunc(min(pause, time.Until(due)), func() {
		late := c.late(seats)
		switch {
		case len(late) == 0:
		case time.Now().Before(due):
			c.push(late)
			c.lookAfter(late, due, min(2*pause, longestPause))
		default:
			klog.Background().V(2).Info("A pod of a group was not reserved in time where that was planned; planning the group again",
				"podGroup", late[0].Gang, "pod", klog.KObj(late[0].Pod))
			for _, seat := range late {
				c.fail(seat)
			}
		}
	})
}

// late returns the seats whose pods are not reserved yet.
func (c *Conductor) late(seats []*Seat) (late []*Seat) {
	for _, seat := range seats {
		if c.roster.IsPlanned(seat) {
			late = append(late, seat)
		}
	}
	return late
}

// push retries pods that have a seat and are not reserved. A pod may not have been back in the queue when it got its seat,
// and a failed attempt ends the pod's nomination.
func (c *Conductor) push(late []*Seat) {
	var pods []*v1.Pod
	for _, seat := range late {
		c.nominate(seat)
		if len(c.roster.Awaits(seat.Pod.UID)) == 0 {
			pods = append(pods, seat.Pod)
		}
		if handle := c.handle(seat.Pod); handle != nil && !c.roster.IsPlanned(seat) {
			handle.DeleteNominatedPodIfExists(seat.Pod) // It was reserved, or given up, in the meantime.
		}
	}
	c.activate(pods)
}

// nominate nominates a pod for the node of its seat, in memory only. This keeps the resources other than devices for the pod.
func (c *Conductor) nominate(seat *Seat) {
	handle := c.handle(seat.Pod)
	info, err := kube.NewPodInfo(seat.Pod)
	if handle == nil || err != nil {
		return
	}
	handle.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: seat.Node})
}
