package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestExtendedClaimAfterRestart: the process dies before one of the writes, and the next
// one goes on from there with the same claim.
func TestExtendedClaimAfterRestart(t *testing.T) {
	t.Parallel()
	for on, want := range map[string][]string{ // Writes of the next process, after what was there.
		"create":        {"create", "update/status"},
		"update/status": {"update/status"},
		"patch/status":  {"update"},
	} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			inCluster(t, backedNodes(2, "n1", "n2"), func(t *testing.T, f *fixture) {
				pod := gpuPod("p", "2")
				f.create(pod)
				name := nameFor(pod)
				f = f.dieOn(pod, "n2", on, "")
				if on == "patch/status" {
					require.ElementsMatch(t, []string{"gpu-0", "gpu-1"}, f.inUse("n2"), "known again")
				}
				result := f.schedule(pod)
				require.Empty(t, result.phase, "%v", result.status)
				for i := range want {
					want[i] += " " + name
				}
				require.Equal(t, want, f.writes)
				require.Len(t, f.claimsFor(pod.UID), 1)
				require.Equal(t, []string{"p"}, consumerNames(f.claim(name)))
				require.Equal(t, name, f.pod("p").Status.ExtendedResourceClaimStatus.ResourceClaimName)
				require.Len(t, f.inUse(result.node), 2)
				require.Len(t, append(f.inUse("n1"), f.inUse("n2")...), 2)
			})
		})
	}
}

// TestExtendedClaimAfterRestartBeforeBinding: everything was written, only the pod is not
// bound. It has to go to the same node.
func TestExtendedClaimAfterRestartBeforeBinding(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(1, "n1", "n2"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		f.bound(pod, "n2")
		before := f.claim(nameFor(pod))
		f.writes = nil
		f = f.restart()
		result := f.schedule(f.pod("p"))
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n2", result.node)
		require.Equal(t, before.Status, f.claim(nameFor(pod)).Status)
		require.Equal(t, []string{"update " + nameFor(pod)}, f.writes, "a write of its own")
	})
}

// TestInformerIsLate: the claim that another process has made is met when it is created.
func TestInformerIsLate(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(2, "n1"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "1")
		f.create(pod)
		same := extended.NewClaim(pod)
		same.Spec.Devices.Requests = []resourceapi.DeviceRequest{builder.Claim("", builder.Request("container-0-request-0", "gpu")).Obj().Spec.Devices.Requests[0]}
		a := f.mustBegin(pod).filter()
		require.NoError(t, a.reserve("n1").AsError())
		f.create(same)
		require.NoError(t, a.preBind("n1").AsError())
		require.Len(t, f.claimsFor(pod.UID), 1)

		other := gpuPod("q", "1")
		f.create(other)
		different := extended.NewClaim(other)
		different.Spec.Devices.Requests = gpus("", 2).Obj().Spec.Devices.Requests
		a = f.mustBegin(other).filter()
		require.NoError(t, a.reserve("n1").AsError())
		f.create(different)
		require.ErrorContains(t, a.preBind("n1").AsError(), "is in the way; trying again without it")
		f.settle()
		require.Empty(t, f.claimsFor(other.UID))
		require.Empty(t, f.schedule(other).phase)
	})
}

// TestLeftOverClaims: claims from earlier attempts are used if they fit the pod's needs, and deleted otherwise.
func TestLeftOverClaims(t *testing.T) {
	t.Parallel()
	pod := gpuPod("p", "1")
	matching := with(extended.NewClaim(pod), func(claim *resourceapi.ResourceClaim) {
		claim.Spec.Devices.Requests = builder.Claim("", builder.Request("container-0-request-0", "gpu")).Obj().Spec.Devices.Requests
	})
	named := func(name string) func(*resourceapi.ResourceClaim) {
		return func(claim *resourceapi.ResourceClaim) {
			claim.Name, claim.UID = name, "uid-"+builder.Claim(name).Obj().UID
		}
	}
	twoDevices := func(claim *resourceapi.ResourceClaim) { claim.Spec.Devices.Requests[0].Exactly.Count = 2 }
	deleted := func(claim *resourceapi.ResourceClaim) {
		now := metav1.Now()
		claim.DeletionTimestamp = &now
	}
	reserved := reservedFor("p")
	tests := map[string]struct {
		claims []*resourceapi.ResourceClaim
		// used is the claim that the pod is bound with at once; if it is "", the first attempt
		// deletes all that are there.
		used string
		node string
	}{
		"not allocated":                 {claims: []*resourceapi.ResourceClaim{with(matching, named("a"))}, used: "a", node: "n1"},
		"allocated":                     {claims: []*resourceapi.ResourceClaim{with(matching, named("a"), allocate("n2", "gpu-0"), reserved, onNode("n2"))}, used: "a", node: "n2"},
		"allocated where no node is":    {claims: []*resourceapi.ResourceClaim{with(matching, named("a"), allocate("n3", "gpu-0"), reserved, onNode("n3"))}},
		"for something else":            {claims: []*resourceapi.ResourceClaim{with(matching, named("a"), twoDevices, allocate("n2", "gpu-0"), reserved, onNode("n2"))}},
		"being deleted":                 {claims: []*resourceapi.ResourceClaim{with(matching, named("a"), allocate("n2", "gpu-0"), reserved, onNode("n2"), deleted)}},
		"two of them":                   {claims: []*resourceapi.ResourceClaim{with(matching, named("a")), with(matching, named("b"), allocate("n2", "gpu-0"), onNode("n2"))}},
		"one with the name of this one": {claims: []*resourceapi.ResourceClaim{with(matching, twoDevices)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := backedNodes(1, "n1", "n2")
			for _, claim := range test.claims {
				objects = append(objects, claim)
			}
			inCluster(t, append(objects, pod), func(t *testing.T, f *fixture) {
				result := f.schedule(pod)
				if test.used != "" {
					require.Empty(t, result.phase, "%v %v", result.status, result.reasons)
					require.Equal(t, test.node, result.node)
					require.Equal(t, test.used, f.pod("p").Status.ExtendedResourceClaimStatus.ResourceClaimName)
					require.Len(t, f.claimsFor(pod.UID), 1)
					return
				}
				require.Equal(t, "Filter", result.phase)
				require.Equal(t, "the claim that an earlier attempt made for extended resources was deleted", result.text())
				for _, claim := range f.claimsFor(pod.UID) {
					require.NotNil(t, claim.DeletionTimestamp)
					require.Empty(t, claim.Finalizers, "nothing keeps it any more")
					f.remove(claim)
				}
				f.settle()
				require.Contains(t, f.names(), "default/p", "the pod is woken")
				result = f.schedule(pod)
				require.Empty(t, result.phase, "%v %v", result.status, result.reasons)
				require.Len(t, f.claimsFor(pod.UID), 1)
			})
		})
	}
}

// TestLeftOverClaimOfPodRejectedByOthers: only other plugins have rejected the pod, so that no event of the claim would wake it.
func TestLeftOverClaimOfPodRejectedByOthers(t *testing.T) {
	t.Parallel()
	pod := gpuPod("p", "1")
	left := with(extended.NewClaim(pod), allocate("n2", "gpu-0"), reservedFor("p"), onNode("n2"), func(claim *resourceapi.ResourceClaim) {
		claim.Spec.Devices.Requests = builder.Claim("", builder.Request("container-0-request-0", "gpu")).Obj().Spec.Devices.Requests
	})
	inCluster(t, append(backedNodes(1, "n1", "n2"), left, pod), func(t *testing.T, f *fixture) {
		a := f.mustBegin(pod)
		f.forget()
		_, status := f.pl.PostFilter(f.ctx, a.state, pod, nil)
		require.True(t, status.IsSuccess(), "%v", status)
		require.Contains(t, status.Message(), "was deleted")
		time.Sleep(queue.LongestPause)
		f.settle()
		require.Contains(t, f.names(), "default/p")
	})
}

// TestLeftOverClaimWhileEvaluating: while it is unknown which devices match, a claim from an earlier attempt may still
// fit somewhere.
func TestLeftOverClaimWhileEvaluating(t *testing.T) {
	t.Parallel()
	pod := gpuPod("p", "1")
	left := with(extended.NewClaim(pod), func(claim *resourceapi.ResourceClaim) {
		claim.Spec.Devices.Requests = builder.Claim("", builder.Request("container-0-request-0", "gpu")).Obj().Spec.Devices.Requests
		claim.Name = "left"
	})
	class := backingClass("gpu", gpuResource)
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].index == 1`}}}
	inCluster(t, plus(indexed("n0", "n1")[1:], class, left, pod), func(t *testing.T, f *fixture) {
		f.pl.state.NodeCache.AtOnce = 0 // Filter is to be the first one to ask.
		f.pl.attemptBudget = 0
		result := f.schedule(pod)
		require.Equal(t, "Filter", result.phase)
		require.Len(t, f.claimsFor(pod.UID), 1)
		require.Nil(t, f.claimsFor(pod.UID)[0].DeletionTimestamp, result.text())
		f.settle()
		require.Contains(t, f.names(), "default/p", "tried again")
		require.Empty(t, f.schedule(pod).phase)
		require.Equal(t, "left", f.claimsFor(pod.UID)[0].Name)
	})
}

// TestLeftOverClaimOfBoundPod: the pod turns out to be bound, so nothing is deleted.
func TestLeftOverClaimOfBoundPod(t *testing.T) {
	t.Parallel()
	pod := gpuPod("p", "1", func(pod *v1.Pod) { pod.Spec.NodeName = "n3" })
	claim := with(extended.NewClaim(pod), allocate("n3", "gpu-0"), reservedFor("p"), onNode("n3"))
	inCluster(t, append(backedNodes(1, "n1"), pod, claim), func(t *testing.T, f *fixture) {
		require.Equal(t, "Filter", f.schedule(gpuPod("p", "1")).phase)
		require.Empty(t, f.writes)
	})
}

// TestLeftOverClaimThatOthersUse is not deleted.
func TestLeftOverClaimThatOthersUse(t *testing.T) {
	t.Parallel()
	pod := gpuPod("p", "1")
	claim := with(extended.NewClaim(pod), allocate("n3", "gpu-0"), reservedFor("q"), onNode("n3"))
	inCluster(t, append(backedNodes(1, "n1"), pod, claim), func(t *testing.T, f *fixture) {
		before := f.claim(claim.Name)
		result := f.schedule(pod)
		require.Equal(t, "Filter", result.phase)
		require.Contains(t, result.text(), "claim in use")
		require.Equal(t, before, f.claim(claim.Name))
	})
}
