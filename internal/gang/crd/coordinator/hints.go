package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Hints returns the events that the other plugins of a profile have registered, for the plugin that rejects the pods of gangs. The
// scheduling queue asks only the hints of the plugin that rejected a pod. For a gang that is always the plugin that asked the others.
//
// Of the events about other pods only deletions are among them: for each pod that gets a node, the queue would ask about every pod that
// waits for its claims, whether it has a gang or not. PodChanged asks about the others. The queue also reports a pod as deleted when
// its binding has failed, which the API server does not.
func (c *Coordinator) Hints(ctx context.Context, profile string, others []fwk.EnqueueExtensions) (events []fwk.ClusterEventWithHint, err error) {
	var ofPods []fwk.ClusterEventWithHint
	asking := make(map[fwk.ClusterEvent][]fwk.QueueingHintFn)
	for _, other := range others {
		registered, err := other.EventsToRegister(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask plugin %s which events may help pods of groups: %w", other.Name(), err)
		}
		for _, event := range registered {
			heard, asked := split(event.Event)
			for _, one := range heard {
				if asking[one] == nil {
					events = append(events, fwk.ClusterEventWithHint{Event: one})
				}
				asking[one] = append(asking[one], event.QueueingHintFn)
			}
			if asked.ActionType != 0 {
				ofPods = append(ofPods, fwk.ClusterEventWithHint{Event: asked, QueueingHintFn: event.QueueingHintFn})
			}
		}
	}
	for i := range events { // The queue compares each event with all that are registered.
		events[i].QueueingHintFn = c.hint(asking[events[i].Event])
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.podHints[profile] = ofPods
	return events, nil
}

// split returns which events of those that a plugin has registered are registered with the queue, and about which PodChanged asks.
func split(event fwk.ClusterEvent) (heard []fwk.ClusterEvent, asked fwk.ClusterEvent) {
	switch event.Resource {
	case fwk.Pod:
		heard = append(heard, fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: event.ActionType})
	case fwk.AssignedPod, fwk.UnscheduledPod:
	default:
		return []fwk.ClusterEvent{event}, asked
	}
	if event.ActionType&fwk.Delete != 0 {
		heard = append(heard, fwk.ClusterEvent{Resource: event.Resource, ActionType: fwk.Delete})
	}
	return heard, fwk.ClusterEvent{Resource: event.Resource, ActionType: event.ActionType &^ fwk.Delete}
}

// hint returns a hint that stirs a pod's gang if one of the others' hints would queue the pod. The pod itself stays where it is: one
// pod is woken for the whole gang when the gang may be planned.
func (c *Coordinator) hint(others []fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
		if gang := crd.KeyOf(pod); gang != "" && c.isStill(gang) && mayHelp(others, logger, pod, before, after) {
			c.stirWaiting(gang)
		}
		return fwk.QueueSkip, nil
	}
}

// mayHelp reports whether a hint would queue a pod after an event. No hint, and one that fails, stand for one that would.
func mayHelp(hints []fwk.QueueingHintFn, logger klog.Logger, pod *v1.Pod, before, after any) bool {
	return slices.ContainsFunc(hints, func(hint fwk.QueueingHintFn) bool {
		if hint == nil {
			return true
		}
		answer, err := hint(logger, pod, before, after)
		return err != nil || answer != fwk.QueueSkip
	})
}

// isStill reports whether a gang waits, no event has happened that may help it, and events of others may.
func (c *Coordinator) isStill(gang string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[gang]
	return w != nil && !w.stirred && !w.lacking
}

// askAbout stirs the gangs that may fit after an event about a pod, according to the hints of other plugins.
func (c *Coordinator) askAbout(e informer.Event[v1.Pod]) {
	c.mutex.Lock()
	gangs, registered := slices.Collect(maps.Keys(c.gangs)), maps.Clone(c.podHints)
	c.mutex.Unlock()
	if len(gangs) == 0 {
		return
	}
	for _, event := range kube.PodEvents(e.Before, e.After) {
		hints := make(map[string][]fwk.QueueingHintFn)
		for profile, events := range registered {
			for _, one := range events {
				if kube.Covers(one.Event, event.ClusterEvent) {
					hints[profile] = append(hints[profile], one.QueueingHintFn)
				}
			}
		}
		for _, gang := range gangs {
			if len(hints) > 0 && c.isStill(gang) && slices.ContainsFunc(c.podsOf(gang), func(pod *v1.Pod) bool {
				return pod.Spec.NodeName == "" && mayHelp(hints[pod.Spec.SchedulerName], klog.Background(), pod, event.Before, event.After)
			}) {
				c.stirWaiting(gang)
			}
		}
	}
}
