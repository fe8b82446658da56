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

// HeldFrom implements cluster.Holds: only what is held in namespaces with the label is kept from other schedulers, and only from consumers that
// would have to leave it alone here as well.
func (s *shared) HeldFrom(claim ledger.ClaimRef, allocation *resourceapi.AllocationResult, consumers []resourceapi.ResourceClaimConsumerReference) string {
	now := time.Now()
	for _, h := range s.holds.Holds() {
		if namespace, err := s.namespaces.Get(h.Namespace); err != nil || namespace.Labels[hold.GuardLabel] != "true" || !h.KeepsFrom(claim.UID, allocation) {
			continue
		}
		binds := func(consumer resourceapi.ResourceClaimConsumerReference) bool {
			return s.bindsConsumer(h, claim.Namespace, consumer, now)
		}
		if len(consumers) == 0 || slices.ContainsFunc(consumers, binds) {
			return fmt.Sprintf("claim %s was to get devices that are held for %s%s, in a namespace where label %s keeps them from other schedulers; "+
				"allocate other devices, or wait", claim, h.For(claim.Namespace), h.Until(now), hold.GuardLabel)
		}
	}
	return ""
}

// bindsConsumer reports whether the consumer of a claim must leave a hold alone. One that is not known must.
func (s *shared) bindsConsumer(h *hold.Hold, namespace string, consumer resourceapi.ResourceClaimConsumerReference, now time.Time) bool {
	if dra.IsPodGroup(consumer) {
		of := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		of.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &consumer.Name}
		return h.Binds(of, preemption.GroupOf(of), s.priority(of), now)
	}
	pod := s.claims.Pod(namespace, consumer.Name)
	return pod == nil || pod.UID != consumer.UID || h.Binds(pod, preemption.GroupOf(pod), s.priority(pod), now)
}
