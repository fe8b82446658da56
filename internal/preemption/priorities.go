package preemption

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// Priorities tracks the lowest priority of pods that may hold devices. A pod with that priority or a lower one has no
// victims to look for, for example in a cluster with one priority. It is safe for concurrent use.
type Priorities struct {
	mutex sync.Mutex
	// pods holds the number of pods by priority.
	pods map[int32]int
	// lowest is the lowest priority in pods, or none if there are no pods.
	lowest atomic.Int64
}

// none stands for no priority: it is above all valid ones.
const none = math.MaxInt32 + 1

// NewPriorities returns a Priorities without pods.
func NewPriorities() *Priorities {
	p := &Priorities{pods: make(map[int32]int)}
	p.lowest.Store(none)
	return p
}

// AnyBelow reports whether any pod has a lower priority.
func (p *Priorities) AnyBelow(priority int32) bool { return p.lowest.Load() < int64(priority) }

// Changed handles an event about a pod: before and after are the API server's versions, nil if there was none.
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

// countedAs returns the priority of a pod that may hold devices. Pods of a PodGroup count as the lowest priority: the
// group's priority decides, and it may be any.
func countedAs(pod *v1.Pod) (priority int32, counts bool) {
	switch {
	case pod == nil || dra.HasEnded(pod) || !mayHoldDevices(pod):
		return 0, false
	case pod.Spec.SchedulingGroup != nil:
		return math.MinInt32, true
	}
	return corev1helpers.PodPriority(pod), true
}

// mayHoldDevices reports whether a pod has claims, or requests resources that devices may back (KEP-5004).
func mayHoldDevices(pod *v1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil {
		return true
	}
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if strings.Contains(string(name), "/") {
					return true
				}
			}
		}
	}
	return false
}
