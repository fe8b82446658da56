package foreign

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// Follow follows the waiting pods of other schedulers until the context ends, beside the scheduler's informer of pods: that
// one can be interrupted without anybody knowing. Pods of profiles for which Own is called later come as well, and do not count.
func (r *Registry) Follow(ctx context.Context, client kubernetes.Interface) {
	pods, waiting := client.CoreV1().Pods(metav1.NamespaceAll), r.selector()
	source := r.liveness.Observe(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = waiting
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = waiting
			return pods.Watch(ctx, options)
		},
	})
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, client), &v1.Pod{}, feed{r},
		cache.ReflectorOptions{Name: "waiting pods of other schedulers", Backoff: informer.Backoff()}).RunWithContext(ctx)
}

// selector selects pods of other schedulers that have no node.
func (r *Registry) selector() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	terms := []fields.Selector{fields.OneTermEqualSelector("spec.nodeName", ""), fields.OneTermEqualSelector("status.phase", string(v1.PodPending))}
	for _, name := range sets.List(r.own) {
		terms = append(terms, fields.OneTermNotEqualSelector("spec.schedulerName", name))
	}
	return fields.AndSelectors(terms...).String()
}

// Interrupted reports whether waiting pods may be missing at the moment, and when that last ended; zero if it never began.
func (r *Registry) Interrupted() (now bool, until time.Time) { return r.liveness.Interrupted() }

// isOwn reports whether a pod is one of this scheduler.
func (r *Registry) isOwn(pod *v1.Pod) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.own.Has(pod.Spec.SchedulerName)
}

// OthersSeen reports whether a scheduler that does not take part in the protocol is known to run, or to have run.
func (r *Registry) OthersSeen() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for name, s := range r.schedulers {
		if (s.seen || !s.ignored.IsZero()) && !s.ours && !r.own.Has(name) {
			return true
		}
	}
	return false
}

// feed adapts a Registry to the reflector, which calls one method after the other from one goroutine.
type feed struct{ *Registry }

var _ cache.TransformingStore = feed{}

// Add is called for a pod that waits.
func (f feed) Add(obj any) error { return f.Update(obj) }

// Update is called for a pod that still waits.
func (f feed) Update(obj any) error {
	pod, err := informer.As[v1.Pod](obj)
	if err == nil && pod.Spec.NodeName == "" && !f.isOwn(pod) { // A server may not know the selector.
		f.apply(pod, false)
	}
	return err
}

// Delete is called for a pod that does not wait any more: it is bound, has ended, or is gone.
func (f feed) Delete(obj any) error {
	pod, err := informer.As[v1.Pod](obj)
	if err == nil {
		f.left(pod.UID, pod.ResourceVersion)
	}
	return err
}

// Replace is called with all pods that wait, at a resourceVersion.
func (f feed) Replace(objects []any, resourceVersion string) error {
	waiting := sets.New[types.UID]()
	for _, obj := range objects {
		pod, err := informer.As[v1.Pod](obj)
		if err != nil {
			return err
		}
		waiting.Insert(pod.UID)
		if err := f.Update(pod); err != nil {
			return err
		}
	}
	for _, uid := range f.waiting() {
		if !waiting.Has(uid) {
			f.left(uid, resourceVersion)
		}
	}
	f.liveness.Replaced()
	return nil
}

// Resync does nothing, because no derived state can get lost.
func (f feed) Resync() error { return nil }

// Transformer makes the reflector drop the largest field that nobody needs, as the scheduler's informer does.
func (f feed) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		pod, err := informer.As[v1.Pod](obj)
		if err == nil {
			pod.ManagedFields = nil
		}
		return pod, err
	}
}

// waiting returns the pods that wait, as far as is known.
func (r *Registry) waiting() (pods []types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for uid, e := range r.pods {
		if e.bound.IsZero() {
			pods = append(pods, uid)
		}
	}
	return pods
}

// left handles a pod that does not wait any more at a resourceVersion. Until the informer says more, it counts as bound.
func (r *Registry) left(uid types.UID, version string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	e := r.pods[uid]
	if e == nil || !e.bound.IsZero() || informer.Newer(e.pod.ResourceVersion, version) {
		return
	}
	e.bound = r.clock.Now()
	pod := *e.pod
	pod.ResourceVersion = version // Older states may come later.
	e.pod = &pod
	r.changed(uid)
}
