package quartermaster

import (
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// claimsMade follows how far kube-controller-manager has got with making claims from
// templates. It takes pods in the order in which they come, so that a pod's turn is over when
// claims are made for later ones.
type claimsMade struct {
	pods corelisters.PodLister

	mutex sync.Mutex
	// latest is when a claim was last seen to be made for pods of some age: by the second in
	// which these were created.
	latest map[int64]time.Time
}

// madeMemory is for how long a claim that was made says that others are to come.
const madeMemory = 2 * gateReportDelay

func newClaimsMade(pods corelisters.PodLister) *claimsMade {
	return &claimsMade{pods: pods, latest: make(map[int64]time.Time)}
}

// note is called for each new claim. Those that were not made from a pod's template tell nothing.
func (m *claimsMade) note(claim *resourceapi.ResourceClaim) {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" {
		return
	}
	pod, err := m.pods.Pods(claim.Namespace).Get(owner.Name)
	if err != nil || pod.UID != owner.UID {
		return
	}
	now := time.Now()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for second, latest := range m.latest {
		if now.Sub(latest) >= madeMemory {
			delete(m.latest, second)
		}
	}
	m.latest[pod.CreationTimestamp.Unix()] = now
}

// toCome reports whether claims were made lately for pods which were created before the given
// time, or not long after it, as far as the controller's order is not exact.
func (m *claimsMade) toCome(created time.Time) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for second, latest := range m.latest {
		if time.Since(latest) < madeMemory && second <= created.Add(gateReportDelay).Unix() {
			return true
		}
	}
	return false
}
