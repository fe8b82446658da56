package foreign

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// namespace holds the pods of a namespace.
type namespace struct {
	pods map[types.UID]*entry
	// version is the Registry's version when a pod last changed.
	version uint64
}

// entry is a pod.
type entry struct {
	pod   *v1.Pod
	since time.Time
	heard time.Time
	bound time.Time // zero: it waits
	// version is the Registry's version when the entry last changed.
	version uint64
}

// isAhead reports whether a state of the pod is older than the known one, or the same. A binding is always news: a list without the
// pod is newer than the binding, and shows only that the pod does not wait any more.
func (e *entry) isAhead(pod *v1.Pod) bool {
	binds := pod.Spec.NodeName != "" && e.pod.Spec.NodeName == ""
	return !binds && informer.AtLeast(e.pod.ResourceVersion, pod.ResourceVersion)
}

// isOver reports whether a pod will not contend any more.
func (r *Registry) isOver(e *entry, now time.Time) bool {
	return r.own.Has(e.pod.Spec.SchedulerName) || !e.bound.IsZero() && now.Sub(e.bound) > Memory
}

// sweep removes outdated entries, from time to time.
func (r *Registry) sweep(now time.Time) {
	if !r.swept.IsZero() && now.Sub(r.swept) <= Memory {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.gone, func(_ types.UID, at time.Time) bool { return now.Sub(at) > Memory })
	present := sets.New[string]()
	for uid, e := range r.pods {
		if r.isOver(e, now) {
			r.remove(uid)
			continue
		}
		present.Insert(e.pod.Spec.SchedulerName)
	}
	// Users may invent names: forget schedulers that have neither been seen nor have pods.
	maps.DeleteFunc(r.schedulers, func(name string, s *scheduler) bool { return !s.seen && !present.Has(name) })
}

// put adds a pod.
func (r *Registry) put(e *entry) {
	r.pods[e.pod.UID] = e
	in := r.in[e.pod.Namespace]
	if in == nil {
		in = &namespace{pods: make(map[types.UID]*entry)}
		r.in[e.pod.Namespace] = in
	}
	in.pods[e.pod.UID] = e
}

// remove removes a pod, if it is there.
func (r *Registry) remove(uid types.UID) {
	e := r.pods[uid]
	if e == nil {
		return
	}
	delete(r.pods, uid)
	in := r.in[e.pod.Namespace]
	if delete(in.pods, uid); len(in.pods) == 0 {
		delete(r.in, e.pod.Namespace)
	}
}

// end removes a pod that can never wait again.
func (r *Registry) end(uid types.UID) {
	r.remove(uid)
	now := r.clock.Now()
	r.sweep(now) // Nobody else does it if claims do not settle.
	r.gone[uid] = now
}
