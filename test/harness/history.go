package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

// revision is a resourceVersion. All objects are in one etcd, so that revisions
// of different kinds can be compared: the smaller one was written first.
type revision uint64

// history records the order of writes, because the final state does not show it:
// a controller reserves claims for pods that were bound without a reservation, and
// an allocation that was removed can be there again.
type history struct {
	sync.Mutex
	pods map[types.UID]*podHistory
	// reserved holds, for each claim (namespace/name) and consumer, the revision at
	// which the claim was first both allocated and reserved for the consumer.
	reserved map[string]map[types.UID]revision
	freed    []freed
	// states holds the successive states of the status of each claim (namespace/name).
	states map[string][]string
	gaps   gaps
}

// podHistory holds the revisions at which a pod was bound and at which it ended; 0 is not yet.
type podHistory struct {
	namespace, name string
	claims          []string // namespace/name, as of being bound
	bound, ended    revision
	group           types.UID // see groupConsumer; "" is none
}

// freed is the end of an allocation or of reservations of its claim.
type freed struct {
	claim     string
	namespace string
	at        revision
	// deallocated is set if the allocation ended.
	deallocated bool
	// consumers are the consumers whose reservations ended.
	consumers []resourceapi.ResourceClaimConsumerReference
}

func newHistory() *history {
	return &history{
		pods:     make(map[types.UID]*podHistory),
		reserved: make(map[string]map[types.UID]revision),
		states:   make(map[string][]string),
	}
}

// watch adds the event handlers. Handlers of one informer see every write in order.
func (h *history) watch(pods, claims cache.SharedInformer) error {
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.sawPod(obj, false) },
		UpdateFunc: func(_, obj any) { h.sawPod(obj, false) },
		DeleteFunc: func(obj any) { h.sawPod(lastKnown(obj), true) },
	}); err != nil {
		return err
	}
	_, err := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.sawClaim(nil, obj) },
		UpdateFunc: h.sawClaim,
	})
	return err
}

func (h *history) sawPod(obj any, deleted bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	h.Lock()
	defer h.Unlock()
	known := h.pods[pod.UID]
	if known == nil {
		known = &podHistory{namespace: pod.Namespace, name: pod.Name, group: groupOf(pod)}
		h.pods[pod.UID] = known
	}
	if known.bound == 0 && pod.Spec.NodeName != "" {
		known.bound = revisionOf(pod.ResourceVersion)
		for name := range resourceclaim.PodClaims(pod) {
			known.claims = append(known.claims, pod.Namespace+"/"+name)
		}
	}
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if known.ended == 0 && (deleted || finished) {
		known.ended = revisionOf(pod.ResourceVersion)
	}
}

func (h *history) sawClaim(oldObj, newObj any) {
	claim, ok := newObj.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	h.Lock()
	defer h.Unlock()
	key, at := claim.Namespace+"/"+claim.Name, revisionOf(claim.ResourceVersion)
	h.gaps.saw(oldObj, at)
	h.states[key] = append(h.states[key], fmt.Sprintf("%d: %s", at, stateOf(claim)))
	if claim.Status.Allocation != nil {
		for _, consumer := range claim.Status.ReservedFor {
			if h.reserved[key] == nil {
				h.reserved[key] = make(map[types.UID]revision)
			}
			if id := consumerID(consumer); h.reserved[key][id] == 0 {
				h.reserved[key][id] = at
			}
		}
	}
	old, ok := oldObj.(*resourceapi.ResourceClaim)
	if !ok || old.UID != claim.UID || old.Status.Allocation == nil {
		return
	}
	f := freed{claim: key, namespace: claim.Namespace, at: at, deallocated: claim.Status.Allocation == nil}
	for _, consumer := range old.Status.ReservedFor {
		// Consumers that are no pods or groups may go as they like.
		if f.deallocated || (isPod(consumer) || isGroup(consumer)) && !slices.Contains(claim.Status.ReservedFor, consumer) {
			f.consumers = append(f.consumers, consumer)
		}
	}
	if len(f.consumers) > 0 {
		h.freed = append(h.freed, f)
	}
}

func revisionOf(resourceVersion string) revision {
	number, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resourceVersion %q is no number: %v", resourceVersion, err))
	}
	return revision(number)
}

// check returns an error if, in a namespace, a pod was bound before all its claims were
// allocated and reserved for it, or if an allocation or a reservation was removed from a
// pod that was on a node.
func (h *history) check(namespace string) error {
	h.Lock()
	defer h.Unlock()
	for uid, pod := range h.pods {
		if pod.namespace != namespace || pod.bound == 0 {
			continue
		}
		for _, claim := range pod.claims {
			if at := h.reservedAt(claim, uid, pod); at == 0 || h.gaps.earliest(at) > pod.bound {
				return fmt.Errorf("pod %s was bound at revision %d, but claim %s was reserved for it at %d (0: never)",
					pod.name, pod.bound, claim, at)
			}
		}
	}
	for _, f := range h.freed {
		if f.namespace != namespace {
			continue
		}
		for _, consumer := range f.consumers {
			if h.uses(consumer, f) {
				what := "no longer reserved"
				if f.deallocated {
					what = "deallocated"
				}
				return fmt.Errorf("claim %s was %s at revision %d, while %s %s used it since revision %d; its states by revision:\n%s",
					f.claim, what, f.at, consumer.Resource, consumer.Name, h.boundAt(consumer, f), strings.Join(h.states[f.claim], "\n"))
			}
		}
	}
	return nil
}

// uses reports whether a consumer used a claim when the claim was freed. A group uses it if
// one of its pods does. For other consumers, only the reservation counts.
func (h *history) uses(consumer resourceapi.ResourceClaimConsumerReference, f freed) bool {
	if !isPod(consumer) && !isGroup(consumer) {
		return true
	}
	return h.boundAt(consumer, f) > 0
}

// boundAt returns the revision since which a consumer uses a claim that was freed, 0 if it does not.
func (h *history) boundAt(consumer resourceapi.ResourceClaimConsumerReference, f freed) revision {
	pods := []*podHistory{h.pods[consumer.UID]}
	if isGroup(consumer) {
		pods = h.members(f, consumer)
	}
	for _, pod := range pods {
		if pod != nil && pod.bound > 0 && pod.bound < h.gaps.earliest(f.at) && (pod.ended == 0 || pod.ended > f.at) {
			return pod.bound
		}
	}
	return 0
}

// stateOf returns the state of a claim as text for errors: devices, reservations, finalizers, deletion and writers.
func stateOf(claim *resourceapi.ResourceClaim) string {
	var devices, consumers []string
	for _, consumer := range claim.Status.ReservedFor {
		consumers = append(consumers, consumer.Name)
	}
	for _, result := range checker.Results(claim) {
		devices = append(devices, result.Pool+"/"+result.Device)
	}
	var writers []string
	for _, entry := range claim.ManagedFields {
		at := "at no time"
		if entry.Time != nil {
			at = entry.Time.Format(time.TimeOnly)
		}
		writers = append(writers, fmt.Sprintf("%s %s %s", entry.Manager, entry.Subresource, at))
	}
	return fmt.Sprintf("devices %v, reserved for %v, finalizers %v, deleted %t, seen at %s, fields of %q",
		devices, consumers, claim.Finalizers, claim.DeletionTimestamp != nil, time.Now().Format("15:04:05.000"), writers)
}

func isPod(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return consumer.Resource == "pods" && consumer.APIGroup == ""
}
