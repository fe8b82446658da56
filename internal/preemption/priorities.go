package preemption

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// Priorities knows the lowest priority of pods that may hold devices: no pod of that priority or a lower one has to look
// for others to evict, as in a cluster where all have the same. It is safe for concurrent use.
type Priorities struct {
	mutex sync.Mutex
	// pods counts them by priority.
	pods map[int32]int
	// lowest is the lowest one that is counted, one more than the highest possible if none is.
	lowest atomic.Int64
}

// none is the lowest priority of no pods.
const none = math.MaxInt32 + 1

// NewPriorities returns one that knows of no pod.
func NewPriorities() *Priorities {
	p := &Priorities{pods: make(map[int32]int)}
	p.lowest.Store(none)
	return p
}

// AnyBelow reports whether there is a pod of lower priority.
func (p *Priorities) AnyBelow(priority int32) bool { return p.lowest.Load() < int64(priority) }

// Changed takes over what the API server has of a pod: before and after an event, nil if there was no such pod.
func (p *Priorities) Changed(before, after *v1.Pod) {
	old, counted := countedAs(before)
	now, counts := countedAs(after)
	if counted == counts && old == now {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if counted {
		if p.pods[old]--; p.pods[old] <= 0 {
			delete(p.pods, old)
		}
	}
	if counts {
		p.pods[now]++
	}
	lowest := int64(none)
	for priority := range p.pods {
		lowest = min(lowest, int64(priority))
	}
	p.lowest.Store(lowest)
}

// countedAs returns the priority of a pod that may hold devices. That of a PodGroup, which counts instead, may be any.
func countedAs(pod *v1.Pod) (priority int32, counts bool) {
	switch {
	case pod == nil || hasEnded(pod) || !mayHoldDevices(pod):
		return 0, false
	case pod.Spec.SchedulingGroup != nil:
		return math.MinInt32, true
	}
	return corev1helpers.PodPriority(pod), true
}

// mayHoldDevices reports whether a pod has claims, or asks for resources that devices may back (KEP-5004).
func mayHoldDevices(pod *v1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil {
		return true
	}
	for i := range pod.Spec.Containers {
		for name := range pod.Spec.Containers[i].Resources.Requests {
			if strings.Contains(string(name), "/") {
				return true
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		for name := range pod.Spec.InitContainers[i].Resources.Requests {
			if strings.Contains(string(name), "/") {
				return true
			}
		}
	}
	return false
}
