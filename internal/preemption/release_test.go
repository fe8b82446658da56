package preemption

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// TestRelease: the claim is awaited by a preemptor from the beginning. Nothing may take time, and
// what the informer of pods has told, the server is not asked.
func TestRelease(t *testing.T) {
	t.Parallel()
	ended := func(phase v1.PodPhase) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Status.Phase = phase }
	}
	for name, tc := range map[string]struct {
		consumers []func(*resourceapi.ResourceClaim)
		pods      []*v1.Pod
		steps     func(w *world)
		held      bool // otherwise it is released by the steps, and not before
	}{
		"claim from a template": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a", templated)},
			steps: func(w *world) { w.remove("a") },
		},
		"claim by name": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) { w.remove("a") },
		},
		"claim for extended resources": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a", extended)},
			steps: func(w *world) { w.remove("a") },
		},
		"shared by two victims": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a", "b")}, pods: []*v1.Pod{victim("a"), victim("b")},
			steps: func(w *world) {
				w.remove("a")
				w.requireHeld()
				w.remove("b")
			},
		},
		"shared with a survivor": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a", "survivor")}, pods: []*v1.Pod{victim("a"), victim("survivor")},
			steps: func(w *world) { w.remove("a") }, held: true,
		},
		"the victim still terminates": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) {
				w.change(victim("a", terminating))
			}, held: true,
		},
		"the victim was never bound": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a", unbound)},
			steps: func(w *world) { w.change(victim("a", unbound, terminating)) },
		},
		"the victim has succeeded": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) { w.change(victim("a", ended(v1.PodSucceeded))) },
		},
		"the victim has failed, and the informer leaves it out": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) {
				w.leaveOut("a")
			},
		},
		"recreated with the same name after it has ended": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) {
				w.change(victim("a", another))
				w.requireHeld()
				w.podChanged(victim("a", failed), false)
				w.settle()
			},
		},
		"deleted without waiting for its node": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a", running)},
			steps: func(w *world) { w.forceDelete("a") }, held: true,
		},
		"deleted without waiting for its node while it terminates": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a", terminating)},
			steps: func(w *world) { w.forceDelete("a") }, held: true,
		},
		"deleted without waiting for its node and recreated": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) {
				w.change(victim("a", another))
				w.podChanged(victim("a"), false)
				w.settle()
			}, held: true,
		},
		"deleted before it was bound": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a", unbound)},
			steps: func(w *world) { w.forceDelete("a") },
		},
		// It may have been bound since the informer heard of it, and its containers may run.
		"deleted while the watch was broken": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a", unbound)},
			steps: func(w *world) {
				pod := w.known.Pod("default", "a")
				w.vanish("a")
				require.NoError(w.t, w.podStore.Delete(pod))
				w.PodHappened(informer.Event[v1.Pod]{Before: pod, Missed: true})
				w.settle()
			}, held: true,
		},
		"somebody else than the node says that it has failed": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) { w.change(victim("a", failed, running)) }, held: true,
		},
		"reserved for somebody who is not a pod": {
			consumers: []func(*resourceapi.ResourceClaim){reserve("a"), func(claim *resourceapi.ResourceClaim) {
				claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{APIGroup: "example.com", Resource: "pods", Name: "b", UID: "b"})
			}}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) { w.remove("a") }, held: true,
		},
		"a group that is not gone": {
			consumers: []func(*resourceapi.ResourceClaim){group("gang")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) { w.remove("a") }, held: true,
		},
		"a group that is gone": {
			consumers: []func(*resourceapi.ResourceClaim){group("gang")}, pods: []*v1.Pod{victim("a")},
			steps: func(w *world) {
				w.groups = []string{"gang"}
				w.remove("a")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := held()
			for _, reserve := range tc.consumers {
				reserve(claim)
			}
			inWorld(t, claim, tc.pods, func(t *testing.T, w *world) {
				begin := time.Now()
				w.await("preemptor")
				w.requireHeld()
				tc.steps(w)
				require.Equal(t, begin, time.Now(), "without delay")
				if tc.held {
					w.pass(time.Hour)
					w.requireHeld()
				} else {
					w.requireReleased()
					require.Equal(t, []string{resourceapi.Finalizer}, w.stored.Finalizers, "the claim is about to be allocated again")
					require.Equal(t, "update status", w.requests[len(w.requests)-1])
					require.LessOrEqual(t, len(w.requests), 3)
				}
				require.True(t, w.Awaited(claim.UID))
				w.Await("preemptor")
				w.requireEmpty()
			})
		})
	}
}

// TestUsedOn: a preemptor is told if others use the claim on when a victim is gone, once for each that goes, and not if they
// are about to go as well.
func TestUsedOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		consumers []string
		pods      []*v1.Pod
		steps     func(w *world)
		told      int
	}{
		"nobody goes": {consumers: []string{"a", "b"}, pods: []*v1.Pod{victim("a", terminating), victim("b")}, steps: func(w *world) { w.tell() }},
		"one goes":    {consumers: []string{"a", "b"}, pods: []*v1.Pod{victim("a"), victim("b")}, steps: func(w *world) { w.remove("a") }, told: 1},
		"one goes, and much is told of the claim": {consumers: []string{"a", "b"}, pods: []*v1.Pod{victim("a"), victim("b")}, steps: func(w *world) {
			w.remove("a")
			w.tell()
			w.pass(time.Hour)
		}, told: 1},
		"two go, one after the other": {consumers: []string{"a", "b", "c"}, pods: []*v1.Pod{victim("a"), victim("b"), victim("c")}, steps: func(w *world) {
			w.remove("a")
			w.remove("b")
		}, told: 2},
		"the other one is about to go": {consumers: []string{"a", "b"}, pods: []*v1.Pod{victim("a"), victim("b", terminating)}, steps: func(w *world) { w.remove("a") }},
		"the claim is told of late": {consumers: []string{"a"}, pods: []*v1.Pod{victim("a"), victim("b", unbound)}, steps: func(w *world) {
			w.forceDelete("a")
			require.Empty(w.t, w.used)
			w.write(reserve("b"))
			w.tell()
		}, told: 1},
		"nobody else uses it": {consumers: []string{"a"}, pods: []*v1.Pod{victim("a")}, steps: func(w *world) { w.forceDelete("a") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, held(tc.consumers...), tc.pods, func(t *testing.T, w *world) {
				w.await("preemptor")
				tc.steps(w)
				require.Len(t, w.used, tc.told)
			})
		})
	}
}

func terminating(pod *v1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.Now()) }

func unbound(pod *v1.Pod) { pod.Spec.NodeName = "" }

func another(pod *v1.Pod) { pod.UID = "another" }

func failed(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }

// running has the node say that a container runs.
func running(pod *v1.Pod) {
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
}

// change has server and informer know a pod as it is now; the informer's handlers tell of it if it
// is done.
func (w *world) change(pod *v1.Pod) {
	w.vanish(pod.Name)
	w.create(pod)
	if isDone(pod) {
		w.podChanged(pod, false)
	}
	w.settle()
}

// requireEmpty checks that nothing is kept.
func (w *world) requireEmpty() {
	w.t.Helper()
	w.settle()
	w.Release.mutex.Lock()
	defer w.Release.mutex.Unlock()
	require.Empty(w.t, w.claims)
	require.Empty(w.t, w.preemptors)
	require.Zero(w.t, w.queue.Len())
}

// TestGroupOfWhichNothingIsTold: what the informers do not tell is looked for again.
func TestGroupOfWhichNothingIsTold(t *testing.T) {
	t.Parallel()
	claim := held()
	group("gang")(claim)
	inWorld(t, claim, nil, func(_ *testing.T, w *world) {
		w.group = Unheard
		w.await("preemptor")
		w.requireHeld()
		w.groups = []string{"gang"}
		w.pass(longestPause)
		w.requireReleased()
		w.Await("preemptor")
		w.requireEmpty()
	})
}

// TestGoneBefore: the consumers are gone when the preemptor begins to wait, and nothing will be
// told any more.
func TestGoneBefore(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), nil, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.requireHeld()
		require.Equal(t, []string{"list pods"}, w.requests, "its containers may still run")
		w.write(deallocated)
		w.tell()
		w.Await("preemptor")
		w.requireEmpty()
	})
	inWorld(t, held(), nil, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.requireReleased()
		require.Equal(t, []string{"update status"}, w.requests, "nobody is reserved")
	})
}

func TestNobodyAwaitsIt(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.Await("preemptor", ledger.ClaimRef{Namespace: "default", Name: "c", UID: "the one before"}, ledger.ClaimRef{Namespace: "default", Name: "other", UID: "other"})
		require.True(t, w.Awaited("other"))
		w.settle()
		w.requireEmpty() // Neither is there.
		w.remove("a")
		w.tell()
		w.requireHeld()
		require.Empty(t, w.requests)
	})
}

// TestForget: of two preemptors that wait for the claim, both have to be forgotten.
func TestForget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		forget   func(w *world)
		released bool
	}{
		"both":                       {forget: func(w *world) { w.Await("one"); w.Await("two") }},
		"one":                        {forget: func(w *world) { w.Await("one") }, released: true},
		"somebody else":              {forget: func(w *world) { w.Await("three") }, released: true},
		"the claims are other ones":  {forget: func(w *world) { w.Await("one"); w.Await("two", ledger.ClaimRef{UID: "other"}) }},
		"the claim is among others":  {forget: func(w *world) { w.Await("one"); w.Await("two", ledger.ClaimRef{UID: "other"}, ledger.RefTo(w.stored)) }, released: true},
		"forgotten and awaited anew": {forget: func(w *world) { w.Await("one"); w.Await("two"); w.await("three") }, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
				w.await("one")
				w.await("two")
				tc.forget(w)
				w.settle()
				require.Equal(t, tc.released, w.Awaited("uid-c"))
				w.remove("a")
				if tc.released {
					w.requireReleased()
				} else {
					w.requireHeld()
				}
				for _, preemptor := range []types.UID{"one", "two", "three"} {
					w.Await(preemptor)
				}
				w.requireEmpty()
			})
		})
	}
}

// TestForgetWhileItIsTriedAgain: what fails is not tried again for nobody.
func TestForgetWhileItIsTriedAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.before["update status"] = []func() error{func() error {
			return apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "c", errors.New("no"))
		}}
		w.remove("a")
		require.Equal(t, 1, w.queue.NumRequeues("uid-c"))
		w.Await("preemptor")
		before := len(w.requests)
		w.pass(time.Hour)
		require.Len(t, w.requests, before)
		require.Zero(t, w.queue.NumRequeues("uid-c"))
		require.NotNil(t, w.stored.Status.Allocation)
		w.requireEmpty()
	})
}

func TestMetric(t *testing.T) { // Not in parallel: the counter is for all.
	registry := k8smetrics.NewKubeRegistry()
	RegisterMetrics(registry.MustRegister)
	count := func() float64 {
		value, err := testutil.GetCounterMetricValue(released)
		require.NoError(t, err)
		return value
	}
	before := count()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.remove("a")
		require.InDelta(t, before+1, count(), 0)
	})
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		w.await("preemptor")
		w.write(deallocated)
		w.remove("a")
		require.InDelta(t, before+1, count(), 0, "the controller was first")
	})
}

// TestManyAtOnce: for -race.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
		claim := w.stored
		for i := range 20 {
			preemptor := types.UID(rune('a' + i))
			go func() {
				w.Await(preemptor, ledger.RefTo(claim))
				w.podChanged(victim("a"), false)
				w.ClaimChanged(claim)
				w.Awaited(claim.UID)
				w.Await(preemptor)
			}()
		}
		w.settle()
		w.requireHeld()
		w.requireEmpty()
	})
}
