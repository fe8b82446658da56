package preemption

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/builder/stub"
)

// world is an API server that has one claim, "c", and what the informers know of it. The test has
// it for itself, but for when it waits.
type world struct {
	*Release
	// mutex is held by the test unless it waits.
	mutex  sync.Mutex
	t      *testing.T
	client *fake.Clientset
	// stored is what the server has, nil if the claim is gone, and pods its pods.
	stored *resourceapi.ResourceClaim
	pods   []*v1.Pod
	// requests lists "get", "update", "update status" for the claim and "list pods", in order.
	requests []string
	// before has the next requests of that kind fail or come late.
	before map[string][]func() error
	// observed are the claims that were observed, groups the PodGroups that are gone; what others do is group. gone counts
	// the claims that were observed to be gone.
	observed []*resourceapi.ResourceClaim
	gone     int
	// used are the preemptors that were told that others use the claim on.
	used []types.UID
	// told is why allocations went that this scheduler has removed.
	told   []string
	groups []string
	group  Usage
	// remembered is what the scheduler's manager of claims has, if that is not what the informer has.
	remembered atomic.Pointer[resourceapi.ResourceClaim]
	// The informers' stores.
	claimStore, podStore cache.Indexer
}

func (w *world) Observe(_ context.Context, _, left *resourceapi.ResourceClaim) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if left == nil {
		w.gone++
		return
	}
	w.observed = append(w.observed, left)
}

func (w *world) ClaimFreed(types.UID) {}

func (w *world) PlanAgain(preemptor types.UID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.used = append(w.used, preemptor)
}

// inWorld runs a test in a bubble of testing/synctest. The informers have the claim and the pods.
func inWorld(t *testing.T, claim *resourceapi.ResourceClaim, pods []*v1.Pod, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, client: fake.NewClientset(), stored: claim, before: make(map[string][]func() error),
			claimStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), podStore: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
		}
		w.client.PrependReactor("*", "*", w.react)
		w.Release = NewRelease(write.New(w.client, write.Options{Changed: func(_ context.Context, change write.Change) {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			w.told = append(w.told, change.Cause.Why)
		}}),
			&claims.Claims{Stored: w.claimStore, Tracked: manager{remembered: &w.remembered}, Pods: w.podStore},
			w,
			func(_ context.Context, _ *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (Usage, write.Unbound, func(), error) {
				w.mutex.Lock()
				defer w.mutex.Unlock()
				if slices.Contains(w.groups, consumer.Name) {
					unbound, _ := write.Deleted(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: consumer.UID}})
					return Abandoned, unbound, func() {}, nil
				}
				return w.group, write.Unbound{}, nil, nil
			},
			w)
		require.NoError(t, w.claimStore.Add(claim.DeepCopy()))
		for _, pod := range pods {
			w.create(pod)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		w.mutex.Lock()
		defer w.mutex.Unlock()
		test(t, w)
		cancel()
		w.waiting(func() { <-ended })
	})
}

// manager is the scheduler's manager of claims, which knows nothing that the informer does not,
// but for a claim that it remembers too long.
type manager struct {
	stub.NoTracker
	remembered *atomic.Pointer[resourceapi.ResourceClaim]
}

func (m manager) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if claim := m.remembered.Load(); claim != nil {
		return claim, nil
	}
	return m.NoTracker.Get(namespace, name)
}

// react answers like the API server does: an update applies to the version that it was made
// from, one of status changes nothing else, and what has no finalizer left goes if it is to be
// deleted.
func (w *world) react(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	kind := action.GetVerb()
	if action.GetResource().Resource == "pods" {
		kind += " pods"
	} else if action.GetSubresource() != "" {
		kind += " " + action.GetSubresource()
	}
	w.requests = append(w.requests, kind)
	if next := w.before[kind]; len(next) > 0 {
		w.before[kind] = next[1:]
		if err := next[0](); err != nil {
			return true, nil, err
		}
	}
	if kind == "list pods" {
		list := &v1.PodList{}
		for _, pod := range w.pods {
			list.Items = append(list.Items, *pod)
		}
		return true, list, nil
	}
	if w.stored == nil {
		return true, nil, apierrors.NewNotFound(resourceapi.Resource("resourceclaims"), "c")
	}
	if kind == "get" {
		return true, w.stored.DeepCopy(), nil
	}
	sent := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim).DeepCopy()
	if sent.UID != w.stored.UID || sent.ResourceVersion != w.stored.ResourceVersion {
		return true, nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "c", errors.New("it has changed"))
	}
	w.write(func(claim *resourceapi.ResourceClaim) {
		if kind == "update status" {
			claim.Status = sent.Status
		} else {
			claim.ObjectMeta = sent.ObjectMeta
		}
	})
	answer := w.stored.DeepCopy()
	if w.stored.DeletionTimestamp != nil && len(w.stored.Finalizers) == 0 {
		w.stored = nil
	}
	return true, answer, nil
}

// waiting has the workers go on until the function returns.
func (w *world) waiting(f func()) {
	w.mutex.Unlock()
	defer w.mutex.Lock()
	f()
}

// settle waits until the workers have nothing to do for now.
func (w *world) settle() { w.waiting(synctest.Wait) }

// pass has time go by.
func (w *world) pass(d time.Duration) {
	w.waiting(func() {
		time.Sleep(d)
		synctest.Wait()
	})
}

// write changes the claim on the server. The informer does not hear of it.
func (w *world) write(changes ...func(*resourceapi.ResourceClaim)) {
	claim := w.stored.DeepCopy()
	for _, change := range changes {
		change(claim)
	}
	version, err := strconv.Atoi(w.stored.ResourceVersion)
	require.NoError(w.t, err)
	claim.ResourceVersion = strconv.Itoa(version + 1)
	w.stored = claim
}

// tell has the informer hear of the claim as it is, or that it is gone.
func (w *world) tell() {
	if w.stored != nil {
		require.NoError(w.t, w.claimStore.Update(w.stored.DeepCopy()))
		w.ClaimChanged(w.stored)
	} else if old := w.known.Claim("default", "c"); old != nil {
		require.NoError(w.t, w.claimStore.Delete(old))
		w.ClaimChanged(old)
	}
	w.settle()
}

// create has server and informer know a pod.
func (w *world) create(pod *v1.Pod) {
	w.pods = append(w.pods, pod)
	require.NoError(w.t, w.podStore.Add(pod))
}

// remove has a pod end and deletes it, and the informer hears of that.
func (w *world) remove(name string) {
	pod := w.known.Pod("default", name).DeepCopy()
	pod.Status.Phase = v1.PodFailed
	require.NoError(w.t, w.podStore.Update(pod))
	w.forceDelete(name)
}

// leaveOut has a pod end. The informer leaves it out from then on, and tells what it was before.
func (w *world) leaveOut(name string) {
	pod := w.known.Pod("default", name)
	ended := pod.DeepCopy()
	ended.Status.Phase = v1.PodFailed
	w.vanish(name)
	w.pods = append(w.pods, ended)
	require.NoError(w.t, w.podStore.Delete(pod))
	w.podChanged(pod, true)
	w.settle()
}

// forceDelete deletes a pod as it is, and the informer hears of it.
func (w *world) forceDelete(name string) {
	w.vanish(name)
	pod := w.known.Pod("default", name)
	require.NoError(w.t, w.podStore.Delete(pod))
	w.podChanged(pod, true)
	w.settle()
}

// vanish deletes a pod on the server.
func (w *world) vanish(name string) {
	w.pods = slices.DeleteFunc(w.pods, func(pod *v1.Pod) bool { return pod.Name == name })
}

// await has the claim awaited.
func (w *world) await(preemptor types.UID) {
	w.Await(preemptor, ledger.RefTo(w.stored))
	w.settle()
}

// requireHeld checks that the claim is as it was, and that nobody has tried to change that.
func (w *world) requireHeld() {
	w.t.Helper()
	require.NotNil(w.t, w.stored.Status.Allocation)
	require.NotContains(w.t, w.requests, "update status")
	require.Empty(w.t, w.observed)
}

// requireReleased checks that the claim is deallocated, and was observed so.
func (w *world) requireReleased() {
	w.t.Helper()
	require.Nil(w.t, w.stored.Status.Allocation)
	require.Empty(w.t, w.stored.Status.ReservedFor)
	require.Empty(w.t, w.stored.Status.Devices)
	require.NotEmpty(w.t, w.observed)
	require.Equal(w.t, w.stored, w.observed[len(w.observed)-1])
}

// held is the claim, allocated and reserved for pods of those names.
func held(pods ...string) *resourceapi.ResourceClaim {
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Allocated("n", "gpu-0")
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: builder.Driver, Pool: "n", Device: "gpu-0"}}
	reserve(pods...)(claim)
	return claim
}

// reserve is the change of a claim that reserves it for pods.
func reserve(pods ...string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		for _, pod := range pods {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor,
				resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: builder.Pod(pod).UID})
		}
	}
}

// group is the change of a claim that reserves it for a PodGroup.
func group(name string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: name, UID: types.UID("uid-" + name)})
	}
}

// deallocated is what the resourceclaim controller does to a claim when its last consumer is gone.
func deallocated(claim *resourceapi.ResourceClaim) {
	claim.Status, claim.Finalizers = resourceapi.ResourceClaimStatus{}, nil
}

// deleted is the change of a claim that marks it as deleted.
func deleted(claim *resourceapi.ResourceClaim) { claim.DeletionTimestamp = ptr.To(metav1.Now()) }

// victim is a pod on a node that uses the claim by name.
func victim(name string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := builder.Pod(name)
	pod.Spec.NodeName = "n"
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("c")}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// templated has the pod use the claim by a template.
func templated(pod *v1.Pod) {
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("template")}}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("c")}}
}

// extended has the pod use the claim for its extended resources (KEP-5004).
func extended(pod *v1.Pod) {
	pod.Spec.ResourceClaims = nil
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
}
