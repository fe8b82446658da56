package quartermaster

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// nameFor is the name of the claim for the pod's extended resources.
func nameFor(pod *v1.Pod) string { return extended.NewClaim(pod).Name }

func TestExtendedClaimIsWritten(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(2, "n1"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "2")
		f.create(pod)
		a := f.mustBegin(pod).filter()
		require.NoError(t, a.reserve("n1").AsError())
		require.Empty(t, f.writes, "nothing is written yet")
		require.ElementsMatch(t, []string{"gpu-0", "gpu-1"}, f.inUse("n1"), "in flight")
		require.NoError(t, a.preBind("n1").AsError())

		name := nameFor(pod)
		require.Equal(t, []string{"create " + name, "update/status " + name}, f.writes)
		claim := f.claim(name)
		require.Equal(t, pod.UID, podclaims.MadeFor(claim))
		require.Equal(t, []string{resourceapi.Finalizer}, claim.Finalizers)
		require.Equal(t, []string{"n1/gpu-0", "n1/gpu-1"}, deviceNames(claim))
		require.Equal(t, []string{"p"}, consumerNames(claim))
		require.Equal(t, &v1.PodExtendedResourceClaimStatus{
			ResourceClaimName: name,
			RequestMappings:   []v1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: gpuResource, RequestName: "container-0-request-0"}},
		}, f.pod("p").Status.ExtendedResourceClaimStatus)
		require.Zero(t, f.pl.state.Ledger.InFlightCount())
		require.ElementsMatch(t, []string{"gpu-0", "gpu-1"}, f.inUse("n1"))
	})
}

// TestExtendedResourceByDevicePlugin: there is nothing to write.
func TestExtendedResourceByDevicePlugin(t *testing.T) {
	t.Parallel()
	inCluster(t, append(backedNodes(0), offering("n1", gpuResource, "2")), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "2")
		f.create(pod)
		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Empty(t, f.writes)
		require.Nil(t, f.pod("p").Status.ExtendedResourceClaimStatus)
	})
}

// TestPodsWithExtendedResourcesGetDifferentDevices: several at once, also with claims of
// other pods in between (kubernetes/kubernetes#136269).
func TestPodsWithExtendedResourcesGetDifferentDevices(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(backedNodes(3, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		pods := []*v1.Pod{gpuPod("a", "1"), newPod("b", uses("c")), gpuPod("d", "1")}
		var attempts []*attempt
		for _, pod := range pods { // All are filtered before any of them is reserved.
			f.create(pod)
			attempts = append(attempts, f.mustBegin(pod).filter())
		}
		for _, a := range attempts {
			require.NoError(t, a.reserve("n1").AsError())
		}
		require.ElementsMatch(t, []string{"gpu-0", "gpu-1", "gpu-2"}, f.inUse("n1"))
		late := gpuPod("late", "1")
		require.Empty(t, f.mustBegin(late).filter().feasible)
		for _, a := range attempts {
			require.NoError(t, a.preBind("n1").AsError())
		}
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim(nameFor(pods[0]))))
		require.Equal(t, []string{"n1/gpu-1"}, deviceNames(f.claim("c")))
		require.Equal(t, []string{"n1/gpu-2"}, deviceNames(f.claim(nameFor(pods[2]))))
	})
}

// TestExtendedClaimGoesWithFailedAttempt: whatever fails, nothing is left of the claim, and
// the next attempt succeeds.
func TestExtendedClaimGoesWithFailedAttempt(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	tests := map[string]struct {
		faults []fault
		// text of the failed attempt.
		text string
	}{
		"not created":                          {faults: []fault{{on: "create", err: forbidden()}}, text: "create the claim for the pod's extended resources"},
		"created, but nobody knows":            {faults: append(repeat(5, fault{on: "get", err: lost}), fault{on: "create", applied: true, err: lost}), text: "outcome of write unknown"},
		"not allocated":                        {faults: []fault{{on: "update/status", err: forbidden()}}, text: "reserve claim"},
		"allocated, but nobody knows":          {faults: append(repeat(5, fault{on: "get", err: lost}), fault{on: "update/status", applied: true, err: lost}), text: "outcome of write unknown"},
		"not recorded in the pod":              {faults: []fault{{on: "patch/status", err: forbidden()}}, text: "record claim"},
		"neither recorded nor deleted":         {faults: []fault{{on: "patch/status", err: forbidden()}, {on: "delete", err: forbidden()}}, text: "record claim"},
		"finalizer not removed":                {faults: []fault{{on: "patch/status", err: forbidden()}, {on: "update", err: forbidden()}}, text: "record claim"},
		"deleted, but nobody knows":            {faults: []fault{{on: "patch/status", err: forbidden()}, {on: "delete", applied: true, err: lost}}, text: "record claim"},
		"somebody else writes the claim":       {faults: []fault{{on: "patch/status", err: forbidden()}, {on: "delete", err: apierrors.NewConflict(claimsResource.GroupResource(), "c", nil)}}, text: "record claim"},
		"one failure that goes away by itself": {faults: []fault{{on: "patch/status", err: apierrors.NewInternalError(errors.New("later"))}}, text: ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, backedNodes(2, "n1"), func(t *testing.T, f *fixture) {
				pod := gpuPod("p", "2")
				f.create(pod)
				f.fail(test.faults...)
				result := f.schedule(pod)
				if test.text == "" {
					require.Empty(t, result.phase, "%v", result.status)
					return
				}
				require.Equal(t, "PreBind", result.phase)
				require.Contains(t, result.text(), test.text)
				time.Sleep(time.Minute) // Of fake time: what is undone in the background.
				f.settle()
				require.Empty(t, f.faults, "faults that did not happen")
				require.Empty(t, f.claimsFor(pod.UID))
				require.Empty(t, f.inUse("n1"))

				result = f.schedule(pod)
				require.Empty(t, result.phase, "%v", result.status)
				require.Len(t, f.claimsFor(pod.UID), 1)
				require.Equal(t, nameFor(pod), f.pod("p").Status.ExtendedResourceClaimStatus.ResourceClaimName)
			})
		})
	}
}

// TestExtendedClaimThatOthersKeep: another client has a finalizer on the claim, so that it outlives the failed attempt.
// It loses its devices, on the server as in the ledger, and until then no other claim gets them.
func TestExtendedClaimThatOthersKeep(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(2, "n1"), func(t *testing.T, f *fixture) {
		pod, other := gpuPod("p", "2"), gpuPod("other", "2")
		f.create(pod)
		f.create(other)
		theirs := func() {
			f.changeClaim(nameFor(pod), func(claim *resourceapi.ResourceClaim) {
				claim.Finalizers = append(claim.Finalizers, "example.com/theirs")
			})
		}
		f.fail(fault{on: "patch/status", before: theirs, err: forbidden()}, fault{on: "update/status"}) // The second is the allocation.
		f.fail(fault{on: "update/status", err: forbidden()})
		require.Equal(t, "PreBind", f.schedule(pod).phase)
		require.ElementsMatch(t, []string{"n1/gpu-0", "n1/gpu-1"}, deviceNames(f.claim(nameFor(pod))), "the write was refused")
		require.ElementsMatch(t, []string{"gpu-0", "gpu-1"}, f.inUse("n1"))
		require.Equal(t, "Filter", f.schedule(other).phase)

		time.Sleep(time.Minute) // Of fake time: it is undone in the background.
		f.settle()
		left := f.claim(nameFor(pod))
		require.NotNil(t, left.DeletionTimestamp)
		require.Equal(t, []string{"example.com/theirs"}, left.Finalizers)
		require.Empty(t, deviceNames(left))
		require.Empty(t, consumerNames(left))
		require.Empty(t, f.inUse("n1"))
		result := f.schedule(other)
		require.Empty(t, result.phase, "%v", result.status)
	})
}

// repeat returns all faults so many times, one after the other.
func repeat(n int, faults ...fault) []fault {
	var result []fault
	for range n {
		result = append(result, faults...)
	}
	return result
}

// TestExtendedClaimIsKeptForBoundPod: the attempt failed, but the pod is bound. It needs
// its claim.
func TestExtendedClaimIsKeptForBoundPod(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		a := f.bound(pod, "n1")
		onServer := f.pod("p")
		onServer.Spec.NodeName = "n1"
		f.replace(onServer)
		a.unreserve("n1")
		f.settle()
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim(nameFor(pod))))
		require.Equal(t, []string{"p"}, consumerNames(f.claim(nameFor(pod))))
	})
}

// TestUnreserveBeforePreBind: there was only something in memory.
func TestUnreserveExtendedBeforePreBind(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(1, "n1"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		a := f.mustBegin(pod).filter()
		for range 2 { // The scheduler may choose again.
			require.NoError(t, a.reserve("n1").AsError())
			require.Equal(t, []string{"gpu-0"}, f.inUse("n1"))
			a.unreserve("n1")
			require.Empty(t, f.inUse("n1"))
		}
		require.Empty(t, f.writes)
	})
}

// TestNameOfExtendedClaimIsTaken: another client created a claim of that name. It is not touched.
func TestNameOfExtendedClaimIsTaken(t *testing.T) {
	t.Parallel()
	pod := gpuPod("p", "1")
	foreign := gpus(nameFor(pod), 1).Obj()
	inCluster(t, append(backedNodes(1, "n1"), foreign), func(t *testing.T, f *fixture) {
		f.create(pod)
		before := f.claim(foreign.Name)
		result := f.schedule(pod)
		require.Equal(t, "PreBind", result.phase)
		require.Contains(t, result.text(), "does not belong to the pod; delete it")
		require.Equal(t, before, f.claim(foreign.Name))
		require.Empty(t, f.inUse("n1"))

		f.remove(foreign)
		f.settle()
		require.Empty(t, f.schedule(pod).phase)
	})
}

// TestExtendedClaimYields: a conflicting claim was allocated the device first.
func TestExtendedClaimYields(t *testing.T) {
	t.Parallel()
	objects := plus(backedNodes(1, "n1"), gpus("other", 1).Obj(), builder.Node("n2"), builder.NodeSlice("n2", builder.Device("gpu-0")).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		f.fail(fault{on: "update/status", claim: nameFor(pod), before: func() { f.changeClaim("other", allocate("n1", "gpu-0")) }})
		result := f.schedule(pod)
		require.Equal(t, "PreBind", result.phase)
		require.Contains(t, result.text(), "already allocated to another claim")
		f.settle()
		require.Empty(t, f.claimsFor(pod.UID), "the claim has given way")
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("other")))
		require.Nil(t, f.pod("p").Status.ExtendedResourceClaimStatus)

		result = f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n2", result.node)
	})
}
