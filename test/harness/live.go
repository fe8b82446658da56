package harness

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api"
)

// serving are the started schedulers of this project that support everything that upstream's allocator does. The zero value
// has none. It is safe for concurrent use.
type serving struct {
	mutex      sync.Mutex
	schedulers []*Scheduler
}

// add adds a scheduler with the options that it was started with. It leaves out schedulers with a feature turned off: upstream's
// allocator would allocate devices to more pods, so that waiting pods of such a scheduler are not checked.
func (s *serving) add(scheduler *Scheduler, o *SchedulerOptions) {
	for _, on := range o.FeatureGates {
		if !on {
			return
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.schedulers = append(s.schedulers, scheduler)
}

// serves reports whether one of them runs for pods with a schedulerName.
func (s *serving) serves(profile string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.ContainsFunc(s.schedulers, func(scheduler *Scheduler) bool {
		select {
		case <-scheduler.Done():
			return false
		default:
			return scheduler.Profile == profile
		}
	})
}

// MayWait allows pods to wait at the end of the test although they would fit; why is the reason.
func (s *Space) MayWait(why string, pods ...string) {
	if s.mayWait == nil {
		s.mayWait = make(map[string]string)
	}
	for _, pod := range pods {
		s.mayWait[pod] = why
	}
}

// isServed is checker.Options.Served for the pods of the space. Upstream's allocator has never supported the alpha versions of
// the API, so that no waiting pod is checked with these.
func (s *Space) isServed(pod *corev1.Pod) bool {
	return pod.Namespace == s.Name && !api.IsAlpha(s.Cluster.Client) && s.mayWait[pod.Name] == "" && s.Cluster.serving.serves(pod.Spec.SchedulerName)
}
