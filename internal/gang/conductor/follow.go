package conductor

import (
	"fmt"
	"maps"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/gang/others"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Follow has gangs tried again when something happens that may help them: to pods, to nodes, or to any object of the other
// informers.
func (c *Conductor) Follow(pods, nodes cache.SharedIndexInformer, others ...cache.SharedIndexInformer) error {
	if _, err := pods.AddEventHandler(handler(c.podChanged)); err != nil {
		return fmt.Errorf("watch the pods of groups: %w", err)
	}
	if _, err := nodes.AddEventHandler(handler(c.nodeChanged)); err != nil {
		return fmt.Errorf("watch nodes for groups: %w", err)
	}
	for _, other := range others {
		if _, err := other.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.StirAll() }, UpdateFunc: func(any, any) { c.StirAll() }, DeleteFunc: func(any) { c.StirAll() },
		}); err != nil {
			return fmt.Errorf("watch devices for groups: %w", err)
		}
	}
	return nil
}

func handler[T any](changed func(before, after *T)) cache.ResourceEventHandler {
	with := func(oldObj, newObj any) { changed(informer.Versions[T](oldObj, newObj)) }
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { with(nil, obj) }, UpdateFunc: with, DeleteFunc: func(obj any) { with(obj, nil) },
	}
}

// podChanged takes over what happened to a pod; before is nil if it is new, and after if it is gone.
func (c *Conductor) podChanged(before, after *v1.Pod) {
	if before != nil && (after == nil || isOver(after) && !isOver(before)) {
		if seat := c.roster.Of(before.UID); seat != nil && before.Spec.NodeName == "" && (after == nil || after.Spec.NodeName == "") {
			c.fail(seat)
		}
		c.StirAll() // What it had on its node is free.
	}
	if before != nil && after != nil && before.Spec.NodeName == "" && after.Spec.NodeName != "" {
		c.stirDependent()
	}
	pod := after
	if pod == nil {
		pod = before
	}
	isNews := before == nil || after == nil || isHeld(before) != isHeld(after) || isOver(before) != isOver(after)
	if gang := coscheduling.KeyOf(pod); gang != "" && isNews {
		c.Stir(gang)
	}
}

// stirDependent stirs the gangs that may fit because one more pod has a node: those that want to be close to others.
func (c *Conductor) stirDependent() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for gang, w := range c.gangs {
		if pods := c.podsOf(gang); len(pods) > 0 && others.IsOrdered(pods[0]) {
			w.stirred = true
			c.sleep(gang, w)
		}
	}
}

// GroupChanged takes over what happened to a PodGroup.
func (c *Conductor) GroupChanged(before, after *v1alpha1.PodGroup) {
	group := after
	if group == nil {
		group = before
	}
	if before == nil || after == nil || before.Generation != after.Generation || before.UID != after.UID ||
		before.Status.Succeeded != after.Status.Succeeded || !maps.Equal(before.Annotations, after.Annotations) {
		c.Stir(group.Namespace + "/" + group.Name)
	}
}

// isOver reports whether a pod needs no node any more.
func isOver(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

func isHeld(pod *v1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

// nodeChanged takes over what happened to a node.
func (c *Conductor) nodeChanged(before, after *v1.Node) {
	if after == nil || before != nil && reflect.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) &&
		reflect.DeepEqual(before.Labels, after.Labels) && reflect.DeepEqual(before.Spec, after.Spec) {
		return
	}
	c.StirAll()
}

// WakeForDevices implements clusterstate.Waker: devices became free.
func (c *Conductor) WakeForDevices(map[inventory.PoolID][]string) { c.StirAll() }

// WakeForLanded implements clusterstate.Waker.
func (c *Conductor) WakeForLanded(types.UID, map[inventory.PoolID][]string) { c.StirAll() }

// WakeOthersOf implements clusterstate.Waker.
func (c *Conductor) WakeOthersOf(types.UID, ledger.ClaimRef) { c.StirAll() }
