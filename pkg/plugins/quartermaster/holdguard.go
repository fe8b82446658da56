package quartermaster

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// HeldFrom implements cluster.Holds: only holds whose owners want that keep devices from other schedulers, and only from consumers that
// would have to leave the devices alone here as well.
func (s *shared) HeldFrom(claim ledger.ClaimRef, allocation *resourceapi.AllocationResult, consumers []resourceapi.ResourceClaimConsumerReference) string {
	now := time.Now()
	for _, h := range s.holds.Holds() {
		if !h.Guarded || !h.Keeps(allocation) {
			continue
		}
		binds := func(consumer resourceapi.ResourceClaimConsumerReference) bool {
			return s.bindsConsumer(h, claim.Namespace, consumer, now)
		}
		if len(consumers) == 0 || slices.ContainsFunc(consumers, binds) {
			return fmt.Sprintf("claim %s was to get devices that are held for %s%s, where annotation %s keeps other schedulers from them; "+
				"allocate other devices, or wait", claim, h.For(claim.Namespace), h.Until(now), hold.GuardAnnotation)
		}
	}
	return ""
}

// bindsConsumer reports whether the consumer of a claim must leave a hold alone. One that is not known must.
func (s *shared) bindsConsumer(h *hold.Hold, namespace string, consumer resourceapi.ResourceClaimConsumerReference, now time.Time) bool {
	if dra.IsPodGroup(consumer) {
		of := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		return h.Binds(of, namespace+"/"+consumer.Name, h.Priority, now)
	}
	pod := s.claims.Pod(namespace, consumer.Name)
	return pod == nil || pod.UID != consumer.UID || h.Binds(pod, preemption.GroupOf(pod), s.priority(pod), now)
}
