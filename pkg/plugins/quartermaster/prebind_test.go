package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestFirstAttempt: the plain case, with all that is written.
func TestFirstAttempt(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(2, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		result := f.schedule(newPod("p", uses("c")))
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n1", result.node)

		claim := f.claim("c")
		require.Equal(t, []string{resourceapi.Finalizer}, claim.Finalizers)
		require.Equal(t, []resourceapi.ResourceClaimConsumerReference{consumer("p")}, claim.Status.ReservedFor)
		allocation := claim.Status.Allocation
		require.Equal(t, []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: builder.Driver, Pool: "n1", Device: "gpu-0"},
		}, allocation.Devices.Results)
		require.NotNil(t, allocation.AllocationTimestamp)
		require.NotNil(t, allocation.NodeSelector)
		require.Equal(t, []string{"n1"}, allocation.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values)
	})
}

func TestPreBindWrites(t *testing.T) {
	t.Parallel()
	allocated := with(gpus("c", 1).Allocated("n1", "gpu-1"), onNode("n1"))
	tests := map[string]struct {
		claims []runtime.Object
		pod    *v1.Pod
		// want is devices and consumers by claim.
		devices   map[string][]string
		consumers map[string][]string
		writes    []string
	}{
		"named claim": {
			claims: []runtime.Object{gpus("c", 1).Obj()}, pod: newPod("p", uses("c")),
			devices:   map[string][]string{"c": {"n1/gpu-0"}},
			consumers: map[string][]string{"c": {"p"}},
			writes:    []string{"update c", "update/status c"},
		},
		"claim from template": {
			claims:    []runtime.Object{with(gpus("p-gpu", 2).Obj(), ownedBy("p"))},
			pod:       newPod("p", template("gpu"), made("gpu", "p-gpu")),
			devices:   map[string][]string{"p-gpu": {"n1/gpu-0", "n1/gpu-1"}},
			consumers: map[string][]string{"p-gpu": {"p"}},
			writes:    []string{"update p-gpu", "update/status p-gpu"},
		},
		"several claims": {
			claims: []runtime.Object{gpus("b", 1).Obj(), gpus("a", 1).Obj()}, pod: newPod("p", uses("b"), uses("a")),
			devices:   map[string][]string{"b": {"n1/gpu-0"}, "a": {"n1/gpu-1"}},
			consumers: map[string][]string{"a": {"p"}, "b": {"p"}},
			writes:    []string{"update b", "update/status b", "update a", "update/status a"},
		},
		"claim referenced twice": {
			claims: []runtime.Object{gpus("c", 1).Obj()}, pod: newPod("p", uses("c"), uses("c")),
			devices:   map[string][]string{"c": {"n1/gpu-0"}},
			consumers: map[string][]string{"c": {"p"}},
			writes:    []string{"update c", "update/status c"},
		},
		"shared claim, allocated already": {
			claims: []runtime.Object{with(allocated, reservedFor("other"))}, pod: newPod("p", uses("c")),
			devices:   map[string][]string{"c": {"n1/gpu-1"}},
			consumers: map[string][]string{"c": {"other", "p"}},
			writes:    []string{"update/status c"},
		},
		"allocated and reserved for the pod already": {
			claims: []runtime.Object{with(allocated, reservedFor("p"))}, pod: newPod("p", uses("c")),
			devices:   map[string][]string{"c": {"n1/gpu-1"}},
			consumers: map[string][]string{"c": {"p"}},
			writes:    []string{"update c"},
		},
		"one allocated, one not": {
			claims:    []runtime.Object{allocated, gpus("d", 1).Obj()},
			pod:       newPod("p", uses("c"), uses("d")),
			devices:   map[string][]string{"c": {"n1/gpu-1"}, "d": {"n1/gpu-0"}},
			consumers: map[string][]string{"c": {"p"}, "d": {"p"}},
			writes:    []string{"update/status c", "update d", "update/status d"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(2, "n1"), test.claims...), func(t *testing.T, f *fixture) {
				result := f.schedule(test.pod)
				require.Empty(t, result.phase, "%v %v", result.status, result.reasons)
				for name, want := range test.devices {
					require.Equal(t, want, deviceNames(f.claim(name)), "devices of claim %s", name)
				}
				for name, want := range test.consumers {
					require.Equal(t, want, consumerNames(f.claim(name)), "consumers of claim %s", name)
					require.Contains(t, f.claim(name).Finalizers, resourceapi.Finalizer)
				}
				require.Equal(t, test.writes, f.writes)
			})
		})
	}
}

// TestPreBindIsKnownAtOnce: the next attempt sees the write, whether or not the informer has delivered it.
func TestPreBindIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		for _, obj := range plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj()) {
			f.create(obj)
		}
		slice, class := f.objects("resourceslices", "n1"), f.objects("deviceclasses", "gpu")
		f.arrive(builder.Node("n1"), slice, class, f.claim("a"), f.claim("b"))
		f.pl.state.RefreshSlice("n1")

		first := newPod("first", uses("a"))
		f.arrive(first)
		result := f.schedule(first)
		require.Empty(t, result.phase, "%v", result.status)
		second := f.schedule(newPod("second", uses("b")))
		require.Equal(t, "cannot allocate all claims: claim default/b request gpu: 1 device matches: 1 asked; 0 free; 1 held by another claim", second.reasons["n1"])
		known, err := f.pl.handle.SharedDRAManager().ResourceClaims().Get("default", "a")
		require.NoError(t, err)
		require.Equal(t, f.claim("a"), known)
	})
}

// TestPreBindBeginsWithWhatIsKnown: three pods that share a claim are filtered before the first of them is reserved.
// The other pods know the first one's writes at once, even before the informer: no write is refused.
func TestPreBindBeginsWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	claim := with(gpus("c", 1).Allocated("n1", "gpu-1"), onNode("n1"))
	inCluster(t, plus(gpuNodes(2, "n1"), claim), func(t *testing.T, f *fixture) {
		var attempts []*attempt
		for _, pod := range []string{"p", "q", "r"} {
			attempts = append(attempts, f.mustBegin(newPod(pod, uses("c"))).filter())
		}
		for _, a := range attempts {
			require.NoError(t, a.reserve("n1").AsError())
			require.NoError(t, a.preBind("n1").AsError())
		}
		require.Equal(t, []string{"p", "q", "r"}, consumerNames(f.claim("c")))
		require.Equal(t, []string{"update/status c", "update/status c", "update/status c"}, f.writes)
	})
}

// TestPreBindRefused: a change by another client makes the attempt fail. It must leave neither devices nor reservation
// behind.
func TestPreBindRefused(t *testing.T) {
	t.Parallel()
	allocated := with(gpus("c", 1).Allocated("n1", "gpu-0"), onNode("n1"))
	tests := map[string]struct {
		claim     *resourceapi.ResourceClaim
		meanwhile func(*resourceapi.ResourceClaim)
		want      error
		text      string
		devices   []string
	}{
		"allocated elsewhere": {
			claim: gpus("c", 1).Obj(), meanwhile: allocate("n1", "gpu-1"),
			want: write.ErrAllocatedElsewhere, text: "claim default/c changed while the pod was being scheduled; trying again", devices: []string{"n1/gpu-1"},
		},
		"deallocated": {
			claim: allocated, meanwhile: deallocate,
			want: write.ErrDeallocated, text: "claim default/c changed while the pod was being scheduled; trying again",
		},
		"allocated anew": {
			claim: allocated, meanwhile: allocate("n1", "gpu-1"),
			want: write.ErrDeallocated, text: "claim default/c changed while the pod was being scheduled; trying again", devices: []string{"n1/gpu-1"},
		},
		"full": {
			claim: allocated, meanwhile: reservedFor(users(resourceapi.ResourceClaimReservedForMaxSize)...),
			want: write.ErrConsumerLimit, text: "reserve claim default/c for the pod", devices: []string{"n1/gpu-0"},
		},
		"being deleted": {
			claim: gpus("c", 1).Obj(), meanwhile: deleting,
			want: write.ErrDeleted, text: "reserve claim default/c for the pod",
		},
		"replaced": {
			claim: gpus("c", 1).Obj(), meanwhile: func(claim *resourceapi.ResourceClaim) { claim.UID = "new" },
			want: write.ErrReplaced, text: "reserve claim default/c for the pod",
		},
	}
	for name, test := range tests {
		for when, wait := range map[string]func(*fixture){"known before": (*fixture).settle, "perhaps not known": func(*fixture) {}} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				inCluster(t, plus(gpuNodes(2, "n1"), test.claim), func(t *testing.T, f *fixture) {
					a := f.mustBegin(newPod("p", uses("c"))).filter()
					require.NoError(t, a.reserve("n1").AsError())
					f.changeClaim("c", test.meanwhile)
					wait(f)
					status := a.preBind("n1")
					require.Equal(t, fwk.Error, status.Code(), "to be tried again")
					require.ErrorIs(t, status.AsError(), test.want)
					require.Contains(t, status.Message(), test.text)
					require.Equal(t, test.devices, deviceNames(f.claim("c")))
					require.NotContains(t, consumerNames(f.claim("c")), "p")
				})
			})
		}
	}
}

// TestPreBindSurvives: errors that do not last.
func TestPreBindSurvives(t *testing.T) {
	t.Parallel()
	touch := func(claim *resourceapi.ResourceClaim) { claim.Labels = map[string]string{"touched": "yes"} }
	lost := func(on string) fault { return fault{on: on, applied: true, err: apierrors.NewInternalError(errLost)} }
	tests := map[string]func(f *fixture) []fault{
		"conflict": func(f *fixture) []fault {
			return []fault{{on: "update", before: func() { f.changeClaim("c", touch) }}}
		},
		"conflict on status": func(f *fixture) []fault {
			return []fault{{on: "update/status", before: func() { f.changeClaim("c", touch) }}}
		},
		"too many requests": func(*fixture) []fault {
			return []fault{{on: "update/status", err: apierrors.NewTooManyRequests("slow down", 1)}}
		},
		"response of finalizer lost": func(*fixture) []fault { return []fault{lost("update")} },
		"response of status lost":    func(*fixture) []fault { return []fault{lost("update/status")} },
		"same allocation by somebody": func(f *fixture) []fault {
			// An earlier, late write of our own looks like this.
			return []fault{{on: "update/status", before: func() {
				f.changeClaim("c", func(claim *resourceapi.ResourceClaim) {
					claim.Status.Allocation = f.pl.state.Ledger.InFlight(claim.UID).DeepCopy()
				})
			}}}
		},
	}
	for name, faults := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(2, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
				f.fail(faults(f)...)
				result := f.schedule(newPod("p", uses("c")))
				require.Empty(t, result.phase, "%v", result.status)
				require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
				require.Equal(t, []string{"p"}, consumerNames(f.claim("c")))
				require.Empty(t, f.faults, "the fault did not happen")
			})
		})
	}
}
