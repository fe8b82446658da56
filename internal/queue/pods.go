package queue

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
)

// Pods holds the pods that this plugin was asked about and that are not bound: it may have to wake them
// when a claim, a slice or a taint rule changes.
//
// The scheduling queue could do that, but it asks about each event for each pod that is not in its
// active part, for whatever reason. If a thousand pods are created at once, all of them would wait
// while it handles two thousand updates of claims.
//
// It is safe for concurrent use.
type Pods struct {
	mutex sync.Mutex
	pods  map[types.UID]*Pod
	// lacking holds pods that are kept out of the queue because a claim does not exist.
	lacking sets.Set[types.UID]
	// grouped holds pods that were not tried because their group does not fit.
	grouped sets.Set[types.UID]
	// exists reports whether a pod is known to wait for a node.
	exists func(*v1.Pod) bool
}

// NewPods returns an empty registry. pods is the store of an informer, whose events PodChanged must get.
func NewPods(pods cache.Store) *Pods {
	return &Pods{
		pods:    make(map[types.UID]*Pod),
		lacking: sets.New[types.UID](),
		grouped: sets.New[types.UID](),
		exists: func(pod *v1.Pod) bool {
			known := informer.Object[v1.Pod](pods, pod.Namespace+"/"+pod.Name)
			return known != nil && known.UID == pod.UID && known.Spec.NodeName == ""
		},
	}
}

// PodChanged forgets a pod that is bound or gone.
func (w *Pods) PodChanged(e informer.Event[v1.Pod]) {
	if e.Before != nil && (e.After == nil || e.After.Spec.NodeName != "" && e.Before.Spec.NodeName == "") {
		w.Forget(e.Before.UID)
	}
}

// Begin records that an attempt to schedule the pod starts.
func (w *Pods) Begin(pod *v1.Pod) *Pod {
	w.mutex.Lock()
	entry := w.pods[pod.UID]
	if entry == nil {
		entry = &Pod{pod: pod}
		w.pods[pod.UID] = entry
	}
	w.mutex.Unlock()
	entry.begin(pod)
	if !w.exists(pod) {
		w.Forget(pod.UID) // Its event came before Begin, so no handler will forget it.
	}
	return entry
}

// Apart returns the state of a pod for a trial attempt: no event wakes the pod because of it.
func Apart(pod *v1.Pod) *Pod { return &Pod{pod: pod} }

// Forget removes a pod. It is not woken any more.
func (w *Pods) Forget(pod types.UID) {
	w.mutex.Lock()
	entry := w.pods[pod]
	delete(w.pods, pod)
	w.lacking.Delete(pod)
	w.grouped.Delete(pod)
	w.mutex.Unlock()
	if entry != nil {
		entry.stop()
	}
}

// Lacks records whether the pod is kept out of the queue because one of its claims does not exist.
func (w *Pods) Lacks(pod *v1.Pod, claim bool) { w.note(w.lacking, pod, claim) }

// AwaitsGroup records whether the pod is not tried because its group does not fit.
func (w *Pods) AwaitsGroup(pod *v1.Pod, waits bool) { w.note(w.grouped, pod, waits) }

// note records whether a pod is in one of the sets.
func (w *Pods) note(set sets.Set[types.UID], pod *v1.Pod, in bool) {
	w.mutex.Lock()
	if in {
		set.Insert(pod.UID)
	} else {
		set.Delete(pod.UID)
	}
	w.mutex.Unlock()
	if in && !w.exists(pod) {
		w.Forget(pod.UID) // As in Begin.
	}
}

// Count adds the pods that wait for devices to counts, each with only one cause.
func (w *Pods) Count(counts *reasons.Counts) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	grouped := w.grouped.Difference(w.lacking)
	counts[reasons.ClaimMissing] += len(w.lacking)
	counts[reasons.Group] += len(grouped)
	for uid, entry := range w.pods {
		if cause, waits := entry.Causes.First(); waits && !w.lacking.Has(uid) && !grouped.Has(uid) {
			counts[cause]++
		}
	}
}

// Get returns the entry of a pod, nil if there is none.
func (w *Pods) Get(pod types.UID) *Pod {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.pods[pod]
}

// Begun returns the number of attempts to schedule a pod that have begun.
func (w *Pods) Begun(pod types.UID) int {
	if entry := w.Get(pod); entry != nil {
		return entry.attemptsBegun()
	}
	return 0
}

// Empty reports whether no pod waits.
func (w *Pods) Empty() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.pods) == 0
}

// All returns the entries of all pods, in no order.
func (w *Pods) All() []*Pod {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Collect(maps.Values(w.pods))
}

// Exists reports whether the pod is known to wait for a node.
func (w *Pods) Exists(pod *v1.Pod) bool { return w.exists(pod) }
