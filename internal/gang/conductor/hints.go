package conductor

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
)

// Hints returns events for the plugin that rejects the pods of gangs: those which other plugins have registered. The scheduling
// queue asks the hints of the plugin that rejected a pod only, and for a gang that is the one that asked the others.
func (c *Conductor) Hints(ctx context.Context, others []fwk.EnqueueExtensions) (events []fwk.ClusterEventWithHint, err error) {
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

// hint returns a hint that stirs the gang of a pod if another hint has the pod tried again. The pod itself is left where it
// is: one of the gang is woken for all when the gang may be planned.
func (c *Conductor) hint(other fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
		gang := coscheduling.KeyOf(pod)
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

// isStill reports whether a gang waits, and nothing has happened by which it may fit.
func (c *Conductor) isStill(gang string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[gang]
	return w != nil && !w.stirred
}
