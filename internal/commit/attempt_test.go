package commit

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/builder/stub"
)

// world is a Runner with a server that has one claim, "c", and a pod that wants it.
type world struct {
	// atDevices is called when a pod waits for its devices; it may be nil.
	atDevices func()
	*Runner
	client *fake.Clientset
	pod    *v1.Pod
	// signals are the announcements of plans in flight.
	signals []string
	// needed is the server's answer to whether the pod is bound.
	needed func() (bool, error)
	// again counts the pods that were to be tried again.
	again atomic.Int32
}

// nobody says that no other scheduler needs devices, and that claims do not settle.
type nobody struct{ foreign.Cluster }

func (nobody) MayHaveDevices(*v1.Pod) bool { return false }
func (nobody) SettleTime() time.Duration   { return 0 }

func (w *world) AwaitDevices(_ context.Context, _ *v1.Pod, _ string, claims []*resourceapi.ResourceClaim) (binding.Outcome, error) {
	if w.atDevices != nil {
		w.atDevices()
	}
	return binding.Outcome{Claims: claims}, nil
}

func (w *world) TryAgain(types.UID) { w.again.Add(1) }

// inWorld runs a test in a bubble of testing/synctest.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{client: newServer(), pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "pod"}}}
		_, err := w.client.ResourceV1().ResourceClaims("default").Create(ctx, builder.Claim("c", builder.Request("gpu", "gpu")).Obj(), metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = w.client.ResourceV1().ResourceSlices().Create(ctx, builder.NodeSlice("n", builder.Devices("gpu-0")...).Obj(), metav1.CreateOptions{})
		require.NoError(t, err)
		factory := informers.NewSharedInformerFactory(w.client, 0)
		state, err := cluster.New(factory, w.client, structured.Features{}, false, new(lease.Lease))
		require.NoError(t, err)
		_, err = informer.AfterEvents(factory.Resource().V1().ResourceClaims().Informer(), state.RefreshClaim)
		require.NoError(t, err)
		_, err = informer.AfterEvents(factory.Resource().V1().ResourceSlices().Informer(), state.RefreshSlice)
		require.NoError(t, err)
		state.Lease = new(lease.Lease)
		state.Begin()
		w.needed = func() (bool, error) { return false, nil }
		w.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.(clienttesting.ListAction).GetListRestrictions().Fields.Empty() {
				return false, nil, nil // The informer asks.
			}
			bound, err := w.needed()
			if err != nil || !bound {
				return err != nil, nil, err
			}
			pod := w.pod.DeepCopy()
			pod.Spec.NodeName = "n"
			return true, &v1.PodList{Items: []v1.Pod{*pod}}, nil
		})
		claims := &podclaims.Claims{Stored: state.Claims, Tracked: stub.NoTracker{}}
		require.NoError(t, claims.IndexPods(factory.Core().V1().Pods().Informer(), "claims"))
		w.Runner = &Runner{
			State:    state,
			Writer:   write.New(w.client, write.Options{}),
			Known:    claims,
			Foreign:  &foreign.Watch{Competitors: foreign.New(clock.RealClock{}, nobody{}), Order: state.Order, Cluster: nobody{}},
			Takeover: New(klog.Background(), 0, state, new(process)),
			Signals:  w,
			Profile:  w,
			Stopping: ctx,
		}
		factory.Start(ctx.Done())
		go state.Order.Run(ctx)
		synctest.Wait()
		test(t, w)
		require.Zero(t, state.Ledger.InFlightCount())
		cancel()
		factory.Shutdown()
	})
}

// newServer gives versions to what is written, which the fake clientset does not.
func newServer() *fake.Clientset {
	client, version := fake.NewClientset(), 1000
	give := func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim) // Also if it creates.
		version++
		claim.ResourceVersion = strconv.Itoa(version)
		return false, nil, nil
	}
	client.PrependReactor("create", "resourceclaims", give)
	client.PrependReactor("update", "resourceclaims", give)
	return client
}

func (w *world) InFlight(claim *resourceapi.ResourceClaim, _ *resourceapi.AllocationResult, created bool) types.UID {
	w.signals = append(w.signals, "in flight, created: "+strconv.FormatBool(created))
	return claim.UID
}

func (w *world) Written(told types.UID, _ *resourceapi.ResourceClaim) { w.end("written", told) }

func (w *world) GivenUp(told types.UID) { w.end("given up", told) }

func (w *world) end(how string, told types.UID) {
	if told != "" {
		w.signals = append(w.signals, how)
	}
}

// claim returns what the server has.
func (w *world) claim(t *testing.T) *resourceapi.ResourceClaim {
	claim, err := w.client.ResourceV1().ResourceClaims("default").Get(t.Context(), "c", metav1.GetOptions{})
	require.NoError(t, err)
	return claim
}

// reserve begins an attempt with a plan.
func (w *world) reserve(t *testing.T) *Attempt {
	claim := &Claim{Object: w.claim(t)}
	attempt := w.Begin(w.pod, claim)
	require.NoError(t, attempt.PutInFlight(claim, &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: builder.Driver, Pool: "n", Device: "gpu-0"}}}}))
	attempt.Signal(claim)
	return attempt
}

func TestAttemptThatHasNotBegun(t *testing.T) {
	t.Parallel()
	var attempt *Attempt
	attempt.Abort(t.Context())
	attempt.Bound(t.Context())
	require.False(t, attempt.IsLeft())
	require.Error(t, attempt.Commit(t.Context(), "n", nil))
}

func TestCommit(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		attempt := w.reserve(t)
		require.Equal(t, 1, w.State.Ledger.InFlightCount())
		writes := 0
		require.NoError(t, attempt.Commit(t.Context(), "n", func(context.Context) error { writes++; return nil }))
		require.Equal(t, 1, writes)
		require.NotNil(t, w.claim(t).Status.Allocation)
		require.Equal(t, []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "pod"}}, w.claim(t).Status.ReservedFor)
		require.Equal(t, []string{"in flight, created: true", "written"}, w.signals)
		attempt.Bound(t.Context())
		attempt.Abort(t.Context())
		require.NotNil(t, w.claim(t).Status.Allocation, "the pod is bound")
		require.Len(t, w.signals, 2, "once")
	})
}

// TestAbort undoes what was done so far, and no more.
func TestAbort(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, test := range map[string]struct {
		commit  bool
		needed  bool
		want    []string
		written bool
	}{
		"nothing was written":         {want: []string{"in flight, created: true", "given up"}},
		"everything was":              {commit: true, want: []string{"in flight, created: true", "written"}},
		"and the pod is bound anyhow": {commit: true, needed: true, want: []string{"in flight, created: true", "written"}, written: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				w.needed = func() (bool, error) { return test.needed, nil }
				attempt := w.reserve(t)
				if test.commit {
					require.ErrorIs(t, attempt.Commit(t.Context(), "n", func(context.Context) error { return failed }), failed)
				}
				attempt.Abort(t.Context())
				attempt.Abort(t.Context())
				require.Equal(t, test.want, w.signals)
				require.Equal(t, test.written, w.claim(t).Status.Allocation != nil)
				require.Equal(t, test.written, len(w.claim(t).Status.ReservedFor) > 0)
				require.False(t, w.IsReleasing("pod"))
			})
		})
	}
}

// TestReleaseInTheBackground: while it is unknown whether the claim is needed, the claim stays, and its
// pod is not tried again.
func TestReleaseInTheBackground(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		asked := 0
		w.needed = func() (bool, error) {
			if asked++; asked < 3 {
				return false, errors.New("the server is away")
			}
			return false, nil
		}
		attempt := w.reserve(t)
		require.Error(t, attempt.Commit(t.Context(), "n", func(context.Context) error { return errors.New("failed") }))
		attempt.Abort(t.Context())
		require.True(t, w.IsReleasing("pod"))
		time.Sleep(UndoInterval + time.Second)
		require.True(t, w.IsReleasing("pod"))
		require.NotNil(t, w.claim(t).Status.Allocation)
		require.Zero(t, w.again.Load())
		time.Sleep(UndoInterval)
		synctest.Wait()
		require.False(t, w.IsReleasing("pod"))
		require.Nil(t, w.claim(t).Status.Allocation)
		require.EqualValues(t, 1, w.again.Load())
	})
}
