package requeue

import (
	"maps"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// ClaimsMade follows how far kube-controller-manager has got with making claims from
// templates. It takes pods in the order in which they come, so that a pod's turn is over when
// claims are made for later ones.
type ClaimsMade struct {
	pods corelisters.PodLister
	// delay is how far the controller's order may be from that of the pods.
	delay time.Duration

	mutex sync.Mutex
	// latest is when a claim was last seen to be made for pods of some age: by the second in
	// which these were created.
	latest map[int64]time.Time
	// purged is when those were last removed that tell nothing any more.
	purged time.Time
}

// NewClaimsMade makes one that looks pods up with the lister. The delay is how far the
// controller's order may be from that of the pods' creation, and half of the time for which a
// claim that was made says that others are to come.
func NewClaimsMade(pods corelisters.PodLister, delay time.Duration) *ClaimsMade {
	return &ClaimsMade{pods: pods, delay: delay, latest: make(map[int64]time.Time)}
}

// note is called for each new claim. Those that were not made from a pod's template tell nothing:
// users' own, and those that schedulers make for extended resources.
func (m *ClaimsMade) note(claim *resourceapi.ResourceClaim) {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" || claim.Annotations[resourceapi.PodResourceClaimAnnotation] == "" {
		return
	}
	pod, err := m.pods.Pods(claim.Namespace).Get(owner.Name)
	if err != nil || pod.UID != owner.UID {
		return
	}
	now := time.Now()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if now.Sub(m.purged) >= m.delay {
		maps.DeleteFunc(m.latest, func(_ int64, latest time.Time) bool { return now.Sub(latest) >= 2*m.delay })
		m.purged = now
	}
	m.latest[pod.CreationTimestamp.Unix()] = now
}

// ToCome reports whether claims were made lately for pods which were created before the given
// time, or not long after it, as far as the controller's order is not exact.
func (m *ClaimsMade) ToCome(created time.Time) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for second, latest := range m.latest {
		if time.Since(latest) < 2*m.delay && second <= created.Add(m.delay).Unix() {
			return true
		}
	}
	return false
}
