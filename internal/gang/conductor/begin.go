package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
)

// Plan is what a gang is to get.
type Plan struct {
	Seats []*roster.Seat
	// Reason says why there are no seats.
	Reason string
	// Again is set if the answer may be another one the next time although nothing happens.
	Again bool
}

// Planner plans a gang: at least so many of the waiting pods are to get a seat. The error is why the gang cannot be
// scheduled for the moment.
type Planner func(ctx context.Context, group *Group, members *Members, need int) (*Plan, error)

// longestMemory is for how long the answer about a gang is not asked for again, although nothing that is known changed.
const longestMemory = 10 * time.Second

// lookAgain is how long after a PodGroup was not found it is looked for again, although nobody tells of it: so that the
// reason stays right.
const lookAgain = 10 * time.Second

// Begin is the beginning of an attempt to schedule a pod, and notes the pod's seat in its state. There is none if the pod
// can go where it fits without others: it is in no gang, or enough of its gang have nodes. The error is why it has to wait.
func (c *Conductor) Begin(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, plan Planner) (*roster.Seat, error) {
	key := coscheduling.KeyOf(pod)
	if key == "" {
		return nil, nil
	}
	seat := c.roster.Of(pod.UID)
	if seat == nil {
		var err error
		if seat, err = c.plan(ctx, key, pod, nodes, plan); seat == nil {
			return nil, err
		}
	}
	if first := c.roster.Awaits(pod.UID); len(first) > 0 {
		return nil, fmt.Errorf("group %s: pod %s is reserved first, because this pod depends on where that is", key, first[0].Name)
	}
	cs.Write(seatKey, seatState{seat})
	return seat, nil
}

// plan plans the gang of a pod that has no seat, unless it is known that this is in vain.
func (c *Conductor) plan(ctx context.Context, key string, pod *v1.Pod, nodes []fwk.NodeInfo, plan Planner) (*roster.Seat, error) {
	group, err := c.lookup(pod, coscheduling.NameOf(pod))
	if err != nil {
		return nil, c.refuse(key, refusal{reason: err.Error(), later: lookAgain, news: true})
	}
	members := c.MembersOf(pod)
	need := group.MinMember - len(members.Assigned) - group.Succeeded
	if _, carried := c.roster.Carried(key); carried {
		return nil, fmt.Errorf("group %s: other pods of the group are being scheduled; waiting for that to be done", key)
	}
	if need <= 0 {
		c.forget(key)
		return nil, nil
	}
	if err := complete(group, members, need); err != nil {
		return nil, c.refuse(key, refusal{reason: err.Error()})
	}
	if reason := c.known(key); reason != "" {
		return nil, errors.New(reason)
	}
	if err := enough(group, nodes); err != nil {
		return nil, c.refuse(key, refusal{reason: err.Error(), tried: true, misfit: true, news: true})
	}
	start := time.Now()
	planned, err := plan(ctx, group, members, need)
	if err == nil && len(planned.Seats) > 0 {
		err = c.hold(ctx, group, planned.Seats)
	}
	took := time.Since(start)
	switch {
	case err != nil:
		return nil, c.refuse(key, refusal{reason: fmt.Sprintf("group %s: %v", key, err), tried: true, took: took, later: shortestPause, news: true})
	case len(planned.Seats) == 0:
		r := refusal{reason: fmt.Sprintf("group %s: %s", key, planned.Reason), tried: true, misfit: !planned.Again, took: took, news: true}
		if planned.Again {
			r.later = shortestPause
		}
		return nil, c.refuse(key, r)
	}
	klog.FromContext(ctx).V(2).Info("Planned a group", "podGroup", key, "pods", len(planned.Seats), "minMember", group.MinMember, "took", took)
	c.start(group, need, planned.Seats, pod)
	if seat := c.roster.Of(pod.UID); seat != nil {
		return seat, nil
	}
	return nil, fmt.Errorf("group %s: other pods of the group are being scheduled; waiting for that to be done", key)
}

// start has the pods of a planned gang take their seats, of which one is being tried already.
func (c *Conductor) start(group *Group, need int, seats []*roster.Seat, trying *v1.Pod) {
	c.forget(group.Name)
	c.roster.Begin(group.Name, need, seats)
	var others []*v1.Pod
	for _, seat := range seats {
		if _, exists, _ := c.pods.GetByKey(seat.Pod.Namespace + "/" + seat.Pod.Name); !exists {
			c.fail(seat) // It went while it was planned, and no event will tell of that again.
		}
		if seat.Pod.UID != trying.UID {
			others = append(others, seat.Pod)
		}
	}
	c.activate(others)
	time.AfterFunc(c.timeout(group)+grace, func() { c.expire(seats) })
}

// grace is how much longer than pods wait for others of their gang the whole plan may take: pods that do not get as far
// as waiting are noticed by that.
const grace = 5 * time.Second

// expire gives up a plan that is not carried out in time, because some pod does not get as far as being reserved.
func (c *Conductor) expire(seats []*roster.Seat) {
	for _, seat := range seats {
		if c.roster.IsPlanned(seat) {
			klog.Background().V(2).Info("A pod of a group was not reserved in time where that was planned; planning the group again", "podGroup", seat.Gang, "pod", klog.KObj(seat.Pod))
			c.fail(seat)
		}
	}
}
