package negotiation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// Negotiator tells controllers what the scheduler wants, and receives their answers. It is safe for concurrent use.
//
// It writes in the background, one write after the other for each pod, and retries until the write succeeds or is no
// longer wanted. Only the latest wish for a pod counts. A restart loses nothing: the next process reaches the same
// conclusions.
type Negotiator struct {
	api    API
	writer *Writer
	store  *contextStore
	pods   Pods
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mutex sync.Mutex
	// wishes has the unfulfilled wishes, including those in progress. A worker must stop when its wish is no longer
	// here.
	wishes map[types.NamespacedName]*wish
}

// Pods are the pods that wait for a node.
type Pods interface {
	// Exists reports whether a pod still exists and has no node.
	Exists(*v1.Pod) bool
}

// wish is the desired state for a pod.
type wish struct {
	pod *v1.Pod
	// spec is the desired spec of the pod's context; nil if the context is not needed any more.
	spec *api.PodSchedulingContextSpec
	// free is a claim to free once the context has that spec; nil if there is none.
	free *Claim
}

// workers is the number of pods that are processed at a time.
const workers = 4

// NewNegotiator returns a negotiator, and an error if it cannot watch the informer. changed is called with all
// changes of contexts, see Progress: before is nil for new contexts, after for deleted ones. It must not block.
func NewNegotiator(api API, writer *Writer, pods Pods, changed func(before, after *api.PodSchedulingContext)) (*Negotiator, error) {
	n := &Negotiator{
		api:    api,
		writer: writer,
		store:  newContextStore(api),
		pods:   pods,
		wishes: make(map[types.NamespacedName]*wish),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 30*time.Second)),
	}
	return n, n.store.follow(changed)
}

// Run works until the context ends.
func (n *Negotiator) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { n.store.informer.RunWithContext(ctx) })
	for range workers {
		group.Go(func() {
			for n.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	n.queue.ShutDown()
	group.Wait()
}

// CheckSync fails until the first list of contexts has arrived. It does not wait: without the right to list them it
// would wait forever, and other pods need none.
func (n *Negotiator) CheckSync() error {
	if n.store.informer.HasSynced() {
		return nil
	}
	return errors.New("the PodSchedulingContexts have not been listed yet; check that the scheduler has the rights of manifests/alpha-api if this lasts")
}

// Context returns the latest known context of a pod, nil if there is none. Read-only.
func (n *Negotiator) Context(pod *v1.Pod) *api.PodSchedulingContext { return n.store.get(pod) }

// Ask requests a change of the pod's context, unless it already has the spec.
func (n *Negotiator) Ask(pod *v1.Pod, spec api.PodSchedulingContextSpec) {
	n.want(&wish{pod: pod, spec: &spec})
}

// Free asks the claim's driver to deallocate it. First it deselects the node, because drivers might allocate the
// claim again for that node.
func (n *Negotiator) Free(pod *v1.Pod, claim *Claim) {
	w := &wish{pod: pod, free: claim, spec: &api.PodSchedulingContextSpec{}}
	if known := n.Context(pod); known != nil {
		*w.spec = known.DeepCopy().Spec
		w.spec.SelectedNode = ""
	}
	n.want(w)
}

// End removes the context of a bound pod, if there is one.
func (n *Negotiator) End(pod *v1.Pod) { n.want(&wish{pod: pod}) }

// Withdraw cancels the wish for a pod that can use its claims as they are. After it, none of them is freed for this
// pod, except by a write in progress, which a later Reserve of the claim detects.
func (n *Negotiator) Withdraw(pod *v1.Pod) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.wishes, keyOf(pod))
}

func keyOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func (n *Negotiator) want(w *wish) {
	key := keyOf(w.pod)
	n.mutex.Lock()
	n.wishes[key] = w
	n.mutex.Unlock()
	n.queue.Add(key)
}

// wanted returns the latest wish for a pod, nil if there is none.
func (n *Negotiator) wanted(key types.NamespacedName) *wish {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.wishes[key]
}

// fulfilled removes a wish, unless a newer one has replaced it.
func (n *Negotiator) fulfilled(key types.NamespacedName, w *wish) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.wishes[key] == w {
		delete(n.wishes, key)
	}
}

func (n *Negotiator) next(ctx context.Context) bool {
	key, shutdown := n.queue.Get()
	if shutdown {
		return false
	}
	defer n.queue.Done(key)
	if w := n.wanted(key); w != nil {
		if err := n.fulfil(ctx, w); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot negotiate with the drivers of a pod's claims; trying again", "pod", klog.KObj(w.pod))
			n.queue.AddRateLimited(key)
			return true
		}
		n.fulfilled(key, w)
	}
	n.queue.Forget(key)
	return true
}

func (n *Negotiator) fulfil(ctx context.Context, w *wish) error {
	if w.spec == nil {
		return n.remove(ctx, w.pod)
	}
	if !n.pods.Exists(w.pod) {
		return nil
	}
	known := n.Context(w.pod)
	differs := known != nil && !sameSpec(&known.Spec, w.spec)
	if differs || known == nil && w.free == nil {
		if err := n.publish(ctx, w.pod, known, w.spec); err != nil {
			return err
		}
	}
	if w.free == nil {
		return nil
	}
	unbound, err := n.writer.Asker.Ask(ctx, w.free.Object, write.OfPod(w.pod))
	if err != nil {
		return write.UnlessBound(err)
	}
	return n.writer.RequestDeallocation(ctx, w.free, unbound, func() bool { return n.wanted(keyOf(w.pod)) == w })
}

func sameSpec(a, b *api.PodSchedulingContextSpec) bool {
	return a.SelectedNode == b.SelectedNode && slices.Equal(a.PotentialNodes, b.PotentialNodes)
}

// publish writes the desired spec. Only the scheduler writes the spec, so a conflict means that only the status has
// changed.
func (n *Negotiator) publish(ctx context.Context, pod *v1.Pod, known *api.PodSchedulingContext, spec *api.PodSchedulingContextSpec) error {
	client := n.api.Contexts(pod.Namespace)
	var err error
	for range maxWriteConflicts {
		var written *api.PodSchedulingContext
		if known == nil {
			written, err = client.Create(ctx, newContext(pod, spec), metav1.CreateOptions{FieldManager: write.FieldManager})
		} else {
			known = known.DeepCopy()
			known.Spec = *spec
			written, err = client.Update(ctx, known, metav1.UpdateOptions{FieldManager: write.FieldManager})
		}
		switch {
		case err == nil:
			n.store.wrote(written)
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err):
			return fmt.Errorf("write PodSchedulingContext %s: %w", klog.KObj(pod), err)
		}
		var readErr error
		if known, readErr = n.read(ctx, pod); readErr != nil {
			return readErr
		}
	}
	return fmt.Errorf("write PodSchedulingContext %s: it keeps changing: %w", klog.KObj(pod), err)
}

// maxWriteConflicts is the number of immediate attempts of a write.
const maxWriteConflicts = 5

// read gets a pod's context from the server, nil if there is none. It deletes the context of an earlier pod of the
// same name.
func (n *Negotiator) read(ctx context.Context, pod *v1.Pod) (*api.PodSchedulingContext, error) {
	client := n.api.Contexts(pod.Namespace)
	found, err := client.Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read PodSchedulingContext %s: %w", klog.KObj(pod), err)
	}
	if metav1.IsControlledBy(found, pod) {
		return found, nil
	}
	err = client.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("remove PodSchedulingContext %s which belongs to an earlier pod: %w", klog.KObj(pod), err)
	}
	return nil, nil
}

// newContext returns a context that is owned by the pod. It does not block the pod's deletion (blockOwnerDeletion):
// with the admission plugin OwnerReferencesPermissionEnforcement, that needs the right to update finalizers of pods.
func newContext(pod *v1.Pod, spec *api.PodSchedulingContextSpec) *api.PodSchedulingContext {
	owner := metav1.NewControllerRef(pod, schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	owner.BlockOwnerDeletion = nil
	return &api.PodSchedulingContext{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, OwnerReferences: []metav1.OwnerReference{*owner}},
		Spec:       *spec,
	}
}

// remove deletes the context of a pod. It always asks the server: a pod whose claims were already allocated may have
// no context, but the informer may not have seen an earlier process's write yet.
func (n *Negotiator) remove(ctx context.Context, pod *v1.Pod) error {
	o := metav1.DeleteOptions{}
	if known := n.Context(pod); known != nil {
		o.Preconditions = &metav1.Preconditions{UID: &known.UID}
	}
	err := n.api.Contexts(pod.Namespace).Delete(ctx, pod.Name, o)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove PodSchedulingContext %s which is not needed any more: %w", klog.KObj(pod), err)
	}
	n.store.forget(keyOf(pod))
	return nil
}
