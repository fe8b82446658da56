package coordinator

import (
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// PodChanged handles an event about a pod.
func (c *Coordinator) PodChanged(e informer.Event[v1.Pod]) {
	before, after := e.Before, e.After
	defer c.askAbout(e)
	switch {
	case before == nil:
		c.podStirs(after)
		return
	case after == nil:
		c.land(before.UID)
		c.leave(before)
		c.StirAll() // Its resources on the node are free.
		c.podStirs(before)
		return
	}
	if dra.HasEnded(after) && !dra.HasEnded(before) {
		c.leave(after)
		c.StirAll()
	}
	if before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		c.land(after.UID)
		if assignment := c.progress.Of(after.UID); assignment != nil && c.progress.IsPlanned(assignment) {
			c.fail(assignment) // Another client has bound it.
		}
		c.stirOrdered()
		c.stirWaiting(crd.KeyOf(after))
	}
	if crd.KeyOf(before) != crd.KeyOf(after) {
		c.leave(after)
		c.podStirs(before)
		c.podStirs(after)
	} else if isHeld(before) != isHeld(after) || dra.HasEnded(before) != dra.HasEnded(after) || isLeaving(before) != isLeaving(after) {
		c.podStirs(after)
	}
}

// leave gives up the assignment of a pod that is gone or in another gang, unless the pod has a node.
func (c *Coordinator) leave(pod *v1.Pod) {
	if assignment := c.progress.Of(pod.UID); assignment != nil && pod.Spec.NodeName == "" {
		c.fail(assignment)
	}
}

// podStirs stirs the gang of a pod.
func (c *Coordinator) podStirs(pod *v1.Pod) {
	if gang := crd.KeyOf(pod); gang != "" {
		c.Stir(gang)
	}
}

// GroupChanged handles a change of a PodGroup. It gives up the plan for the previous version, unless the pods are about to
// be bound.
func (c *Coordinator) GroupChanged(before, after *v1alpha1.PodGroup) {
	group := after
	if group == nil {
		group = before
	}
	gang := group.Namespace + "/" + group.Name
	if !wantsTheSame(before, after) {
		if ended := c.progress.Abandon(gang); len(ended) > 0 {
			c.giveUp(ended, "the PodGroup has changed")
		}
		c.Stir(gang)
		return
	}
	if before.Status.Succeeded != after.Status.Succeeded {
		c.Stir(gang)
	}
}

// wantsTheSame reports whether two versions of a PodGroup have the same requirements. The number of pods that have
// succeeded does not count.
func wantsTheSame(before, after *v1alpha1.PodGroup) bool {
	return before != nil && after != nil && before.UID == after.UID && quantity.DeepEqual(before.Spec, after.Spec) &&
		before.Annotations[domain.RequiredAnnotation] == after.Annotations[domain.RequiredAnnotation] &&
		before.Annotations[domain.PreferredAnnotation] == after.Annotations[domain.PreferredAnnotation]
}

// isLeaving reports whether a pod is being deleted. It still holds its resources, but its gang must manage without it:
// controllers that replace pods do not wait for the old ones to end.
func isLeaving(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil }

func isHeld(pod *v1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

// NodeChanged handles an event about a node.
func (c *Coordinator) NodeChanged(e informer.Event[v1.Node]) {
	before, after := e.Before, e.After
	if after == nil || before != nil && reflect.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) &&
		reflect.DeepEqual(before.Labels, after.Labels) && reflect.DeepEqual(before.Spec, after.Spec) {
		return
	}
	c.StirAll()
}

// WakeForDevices implements cluster.Waker: devices became free.
func (c *Coordinator) WakeForDevices(map[inventory.PoolID][]string) { c.StirAll() }

// WakeForLanded implements cluster.Waker.
func (c *Coordinator) WakeForLanded(*v1.Pod, time.Time, map[inventory.PoolID][]string) { c.StirAll() }

// WakeOthersOf implements cluster.Waker.
func (c *Coordinator) WakeOthersOf(*v1.Pod, time.Time, ...ledger.ClaimRef) { c.StirAll() }

// WakeUsersOf implements cluster.Waker: WakeForDevices stirs for the claim's devices.
func (c *Coordinator) WakeUsersOf(ledger.ClaimRef) {}
