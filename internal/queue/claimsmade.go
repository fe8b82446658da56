package queue

import (
	"maps"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// ClaimsMade tracks how far kube-controller-manager has got with making claims from templates. The controller
// takes pods in the order of their creation, so a pod was processed if claims are made for later ones.
type ClaimsMade struct {
	pods corelisters.PodLister
	// delay limits how far the controller's order may differ from that of the pods' creation.
	delay time.Duration

	mutex sync.Mutex
	// latest is the time when a claim was last made for pods of some age, by the second of the pods' creation.
	latest map[int64]time.Time
	// purged is the time when outdated entries were last removed.
	purged time.Time
}

// NewClaimsMade returns a ClaimsMade that looks up pods with the lister. delay limits how far the
// controller's order may differ from that of the pods' creation. A claim that was made indicates for
// twice that time that others will follow.
func NewClaimsMade(pods corelisters.PodLister, delay time.Duration) *ClaimsMade {
	return &ClaimsMade{pods: pods, delay: delay, latest: make(map[int64]time.Time)}
}

// note records a new claim. It ignores claims that were not made from a pod's template: users' own
// claims, and those that schedulers make for extended resources.
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

// ToCome reports whether claims were made recently for pods that were created before the given time, or
// shortly after it, because the controller's order is not exact.
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
