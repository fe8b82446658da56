package quartermaster

import (
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// follow registers the scheduler's handlers for the events of kube-scheduler's informers, one for each informer. Each first refreshes
// the state, and then tells those who wake pods, in the order that stands here: nobody is woken for what the state lacks. No pod is
// tried before the objects that existed at the start were handled (State.Sync).
//
// Elsewhere are only the handlers of informers that exist on some servers: PodGroups of scheduler-plugins and their status (gang/crd)
// and PodSchedulingContexts (classicdra/negotiation). The plugin GangPlacement and the guard in the same process follow by themselves.
func (s *shared) follow(factory informers.SharedInformerFactory) error {
	core, api := factory.Core().V1(), factory.Resource().V1()
	_, nodes := informer.Follow(core.Nodes().Informer(), s.nodeChanged)
	_, classes := informer.Follow(api.DeviceClasses().Informer(), s.classChanged)
	err := errors.Join(nodes, classes)
	inTime := func(registration cache.ResourceEventHandlerRegistration, failed error) {
		s.SyncWith(registration)
		err = errors.Join(err, failed)
	}
	inTime(informer.Follow(core.Pods().Informer(), s.podChanged))
	inTime(informer.Follow(api.ResourceClaims().Informer(), s.claimChanged))
	inTime(informer.Follow(api.ResourceSlices().Informer(), s.sliceChanged))
	if s.HasTaintRules() {
		inTime(informer.Follow(api.DeviceTaintRules().Informer(), s.ruleChanged))
	}
	return err
}

// nodeChanged handles an event about a node. Single pods are woken by their hints, see Hints.
func (s *shared) nodeChanged(e informer.Event[v1.Node]) {
	s.NodeChanged(e)
	if s.offers != nil {
		s.offers.NodeChanged(e)
	}
	s.gangs.NodeChanged(e)
}

// classChanged handles an event about a class. Single pods are woken by their hints, see Hints.
func (s *shared) classChanged(informer.Event[resourceapi.DeviceClass]) { s.gangs.StirAll() }

// podChanged handles an event about a pod.
func (s *shared) podChanged(e informer.Event[v1.Pod]) {
	s.priorities.Changed(e.Before, e.After)
	preemption.PodChanged(s.Ledger, e.Before, e.After)
	s.competitors.PodChanged(e)
	s.PodChanged(e) // From here on, pods are woken.
	s.Freed(s.nominations.Changed(e.Before, e.After))
	if s.holdsOn.Load() {
		s.Free.PodChanged(e.Before, e.After)
		s.Freed(s.holds.PodChanged(e.Before, e.After))
	}
	s.gangs.PodChanged(e)
	ends := e.Before != nil && (e.After == nil || e.After.DeletionTimestamp != nil)
	if ends {
		s.turns.Forget(e.Before.UID)
		s.failures.Forget(e.Before.UID)
	}
	if gone := e.Before != nil && !dra.HasEnded(e.Before) && (e.After == nil || dra.HasEnded(e.After)); gone {
		s.leavesClaims(e.Before)
	}
	for _, pl := range s.served() {
		if ends {
			pl.tryNominees(e.Before)
		}
		pl.waiting.PodChanged(e)
		pl.widened.PodChanged(e)
		if entry := pl.waiting.Get(e.Latest().UID); entry != nil {
			if isNominated(e) {
				pl.waker.Nominated(entry)
			}
			if s.holdsOn.Load() && mayPassHolds(e) {
				pl.waker.Wake(entry)
			}
		}
		if ends {
			pl.devices.Changed.Tell(e.Before.UID)
		}
		pl.release.PodHappened(e)
		if pl.nominees != nil {
			pl.nominees.PodChanged(e)
		}
	}
}

// tryNominees has the pods tried again that preempt a pod without a node which ends now. kube-scheduler does that when it forgets the pod
// at the end of Unreserve. If they are kept out of the queue just then, because they evict it once more, nothing else does: at the event of
// a pod without a node it wakes at most pods of its priority.
func (pl *Quartermaster) tryNominees(victim *v1.Pod) {
	entry := pl.waiting.Get(victim.UID)
	if entry == nil || entry.FailedOn() == "" {
		return
	}
	nominees := make(map[string]*v1.Pod)
	for _, nominee := range pl.handle.NominatedPodsForNode(entry.FailedOn()) {
		if pod := nominee.GetPod(); corev1helpers.PodPriority(pod) > corev1helpers.PodPriority(victim) {
			nominees[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(nominees) > 0 {
		pl.handle.Activate(klog.Background(), nominees)
	}
}

// leavesClaims wakes the pods that may evict those which shared claims with a pod of higher priority that ends. Its end frees nothing itself.
func (s *shared) leavesClaims(pod *v1.Pod) {
	var left ledger.Freed
	for _, use := range s.Ledger.UsesBy(pod.UID) {
		if len(use.ReservedFor) == 1 {
			continue // It will be deallocated.
		}
		priority := s.priority(pod)
		keeps := func(consumer resourceapi.ResourceClaimConsumerReference) bool {
			other := s.claims.Pod(use.Claim.Namespace, consumer.Name)
			gone := other == nil || other.UID != consumer.UID || dra.HasEnded(other)
			return !dra.IsPod(consumer) || consumer.UID != pod.UID && !gone && s.priority(other) >= priority
		}
		if !slices.ContainsFunc(use.ReservedFor, keeps) {
			left = left.And(ledger.DevicesOf(use))
		}
	}
	s.Landed(nil, time.Time{}, left)
}

// mayPassHolds reports whether a waiting pod changed so that it may be allowed to use what is held: bookings are for labels, and a pod may use
// devices that it gives back before a hold begins.
func mayPassHolds(e informer.Event[v1.Pod]) bool {
	return e.Before != nil && e.After != nil && e.After.Spec.NodeName == "" && (!maps.Equal(e.Before.Labels, e.After.Labels) ||
		!ptr.Equal(e.Before.Spec.ActiveDeadlineSeconds, e.After.Spec.ActiveDeadlineSeconds))
}

// isNominated reports whether the event shows that a pod was nominated for a node.
func isNominated(e informer.Event[v1.Pod]) bool {
	return e.Before != nil && e.After != nil && e.After.Status.NominatedNodeName != "" && e.After.Status.NominatedNodeName != e.Before.Status.NominatedNodeName
}

// claimChanged handles an event about a claim.
func (s *shared) claimChanged(e informer.Event[resourceapi.ResourceClaim]) {
	claim := e.Latest()
	s.competitors.ClaimChanged(e, s.claims.Users)
	s.RefreshClaim(claim.Namespace + "/" + claim.Name) // It wakes pods for devices that are free now, and for a claim that has none any more.
	for _, pl := range s.served() {
		pl.devices.Changed.Tell(claim.UID)
		pl.events.ClaimChanged(pl.stopping, e)
		pl.release.ClaimHappened(e)
	}
}

// sliceChanged handles an event about a slice. Gangs follow the pools (State.OnPublished).
func (s *shared) sliceChanged(e informer.Event[resourceapi.ResourceSlice]) {
	s.RefreshSlice(e.Latest().Name)
	for _, pl := range s.served() {
		pl.events.SliceChanged(e)
	}
}

// ruleChanged handles an event about a taint rule. Gangs follow the pools (State.OnPublished).
func (s *shared) ruleChanged(e informer.Event[resourceapi.DeviceTaintRule]) {
	s.RefreshTaintRule(e.Latest().Name)
	for _, pl := range s.served() {
		pl.events.RuleChanged(e)
	}
}
