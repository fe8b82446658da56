package coordinator

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

// Hints returns the events that other plugins have registered, for the plugin that rejects the pods of gangs. The scheduling
// queue asks only the hints of the plugin that rejected a pod. For a gang that is always the plugin that asked the others.
func (c *Coordinator) Hints(ctx context.Context, others []fwk.EnqueueExtensions) (events []fwk.ClusterEventWithHint, err error) {
	for _, other := range others {
		registered, err := other.EventsToRegister(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask plugin %s which events may help pods of groups: %w", other.Name(), err)
		}
		for _, event := range registered {
			events = append(events, fwk.ClusterEventWithHint{Event: event.Event, QueueingHintFn: c.hint(event.QueueingHintFn)})
		}
	}
	return events, nil
}

// hint returns a hint that stirs a pod's gang if the other hint would queue the pod. The pod itself stays where it is: one
// pod is woken for the whole gang when the gang may be planned.
func (c *Coordinator) hint(other fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
		gang := crd.KeyOf(pod)
		if gang == "" || !c.isStill(gang) {
			return fwk.QueueSkip, nil
		}
		if other != nil {
			if hint, err := other(logger, pod, before, after); err == nil && hint == fwk.QueueSkip {
				return fwk.QueueSkip, nil
			}
		}
		c.stirWaiting(gang)
		return fwk.QueueSkip, nil
	}
}

// isStill reports whether a gang waits, no event has happened that may help it, and events of others may.
func (c *Coordinator) isStill(gang string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[gang]
	return w != nil && !w.stirred && !w.lacking
}
