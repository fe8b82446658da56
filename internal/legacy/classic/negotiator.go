package classic

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

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

// Negotiator tells controllers what the scheduler wants, and hears their answers. It is
// safe for concurrent use.
//
// What is wanted for a pod is written in the background, one thing after the other and
// again until it succeeds or is not wanted any more. The latest wish counts. Nothing is
// lost with the process: the next one comes to the same conclusions.
type Negotiator struct {
	api    API
	writer *Writer
	store  *contextStore
	// waits reports whether a pod still exists and has no node.
	waits func(*v1.Pod) bool
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mutex sync.Mutex
	// wishes has what is not fulfilled yet, also while that is being done. Who works on a
	// wish that is not here any more must stop.
	wishes map[types.NamespacedName]*wish
}

// wish is what is wanted for a pod.
type wish struct {
	pod *v1.Pod
	// spec is how its context is to be; nil if it is not needed any more.
	spec *apiversions.PodSchedulingContextSpec
	// free is a claim to be freed when the context is as it is to be; nil if there is none.
	free *Claim
}

// workers is how many pods are attended to at a time.
const workers = 4

// NewNegotiator also returns an error if the informer cannot be followed. changed is told
// of all changes of contexts, see Progress: before is nil for new ones, after for those
// that have been deleted. It must not block.
func NewNegotiator(api API, writer *Writer, waits func(*v1.Pod) bool, changed func(before, after *apiversions.PodSchedulingContext)) (*Negotiator, error) {
	n := &Negotiator{
		api:    api,
		writer: writer,
		store:  newContextStore(api),
		waits:  waits,
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

// CheckSync fails until the contexts that existed at the start are known. It does not wait
// for that: without the right to list them it would be for ever, and other pods need none.
func (n *Negotiator) CheckSync() error {
	if n.store.informer.HasSynced() {
		return nil
	}
	return errors.New("the PodSchedulingContexts have not been listed yet; check that the scheduler has the rights of manifests/alpha-api if this lasts")
}

// Context returns the latest known context of a pod, nil if there is none. Read-only.
func (n *Negotiator) Context(pod *v1.Pod) *apiversions.PodSchedulingContext { return n.store.get(pod) }

// Ask has the pod's context changed, unless it is like that already.
func (n *Negotiator) Ask(pod *v1.Pod, spec apiversions.PodSchedulingContextSpec) {
	n.want(&wish{pod: pod, spec: &spec})
}

// Free asks the claim's driver to deallocate it. Before that, drivers are told that no
// node is selected: they might allocate it again for that one.
func (n *Negotiator) Free(pod *v1.Pod, claim *Claim) {
	w := &wish{pod: pod, free: claim, spec: &apiversions.PodSchedulingContextSpec{}}
	if known := n.Context(pod); known != nil {
		*w.spec = known.DeepCopy().Spec
		w.spec.SelectedNode = ""
	}
	n.want(w)
}

// End removes the pod's context, if there is one: the pod is bound.
func (n *Negotiator) End(pod *v1.Pod) { n.want(&wish{pod: pod}) }

// Withdraw ends what is wanted for a pod, because it can use its claims as they are. None
// of them will be freed for its sake unless that is being written at this moment, which
// whoever reserves the claim afterwards finds out.
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

// fulfilled forgets a wish, unless there is another one by now.
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
	if !n.waits(w.pod) {
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
	return n.writer.RequestDeallocation(ctx, w.free, w.pod.UID, func() bool { return n.wanted(keyOf(w.pod)) == w })
}

func sameSpec(a, b *apiversions.PodSchedulingContextSpec) bool {
	return a.SelectedNode == b.SelectedNode && slices.Equal(a.PotentialNodes, b.PotentialNodes)
}

// publish makes the context as it is to be. Nobody else writes its spec, so a conflict
// only means that its status has changed.
func (n *Negotiator) publish(ctx context.Context, pod *v1.Pod, known *apiversions.PodSchedulingContext, spec *apiversions.PodSchedulingContextSpec) error {
	client := n.api.Contexts(pod.Namespace)
	var err error
	for range maxWriteConflicts {
		var written *apiversions.PodSchedulingContext
		if known == nil {
			written, err = client.Create(ctx, newContext(pod, spec), metav1.CreateOptions{FieldManager: claimwriter.FieldManager})
		} else {
			known = known.DeepCopy()
			known.Spec = *spec
			written, err = client.Update(ctx, known, metav1.UpdateOptions{FieldManager: claimwriter.FieldManager})
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

// maxWriteConflicts is how often a write is tried again at once.
const maxWriteConflicts = 5

// read gets the context of a pod from the server, nil if there is none. That of an earlier
// pod of the same name is removed.
func (n *Negotiator) read(ctx context.Context, pod *v1.Pod) (*apiversions.PodSchedulingContext, error) {
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

// newContext makes a context that belongs to the pod. It does not keep the pod from being
// deleted before it (blockOwnerDeletion): with the admission plugin
// OwnerReferencesPermissionEnforcement, that needs the right to update finalizers of pods.
func newContext(pod *v1.Pod, spec *apiversions.PodSchedulingContextSpec) *apiversions.PodSchedulingContext {
	owner := metav1.NewControllerRef(pod, schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	owner.BlockOwnerDeletion = nil
	return &apiversions.PodSchedulingContext{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, OwnerReferences: []metav1.OwnerReference{*owner}},
		Spec:       *spec,
	}
}

// remove removes the context of a pod. A pod whose claims were allocated already may have
// none, which cannot be known for sure: the write of an earlier process may not have been
// heard of.
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
