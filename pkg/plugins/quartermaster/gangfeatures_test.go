package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestGangWithExtendedResources: the claims that the scheduler makes for extended resources
// are planned twice as well, and each pod gets one.
func TestGangWithExtendedResources(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{gpuPod("p0", "2", member), gpuPod("p1", "1", member), gpuPod("p2", "1", member, uses("own"))}
	objects := plus(backedNodes(3, "n1", "n2"), gpus("own", 1).Obj(), pods[0], pods[1], pods[2])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.schedule(pods...)
		claims, err := g.client.ResourceV1().ResourceClaims("").List(g.ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, claims.Items, 4)
		held := map[string]string{}
		for i := range claims.Items {
			for _, device := range deviceNames(&claims.Items[i]) {
				require.Empty(t, held[device], "device %s is held twice", device)
				held[device] = claims.Items[i].Name
			}
		}
		require.Len(t, held, 5)
	})
}

// TestGangWithExtendedResourcesWhileNotAllNodesAreKnown: nodes where a device plugin has the resource are not the only ones.
func TestGangWithExtendedResourcesWhileNotAllNodesAreKnown(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{gpuPod("p0", "1", member), gpuPod("p1", "1", member)}
	objects := plus(backedNodes(1, "n1"), offering("n2", gpuResource, "1"), pods[0], pods[1])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.pl.state.NodeCache.AtOnce = 0
		g.settle()
		view, err := (&gangPods{nil, g.pl, planning.Gang{Pods: pods}, nil, g.nodeInfos(), nil}).View(g.ctx, pods[0])
		require.NoError(t, err)
		require.True(t, view.Has == nil || view.Has.Has("n1"), "%v", view.Has)
		require.Nil(t, view.Values, "what a node costs where a device plugin has the resource is not known")
	})
}

// TestGangAvoidsWhatHasFailedForOneOfItsPods: the gang is planned with the first pod's view of the devices, on behalf
// of equal pods.
func TestGangAvoidsWhatHasFailedForOneOfItsPods(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("b"))}
	objects := plus(fabricNodes("n1", "n2"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), pods[0], pods[1])
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		for _, failed := range []string{"n1", "n2"} {
			claim := gpus("gone", 1).Obj()
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: builder.Driver, Pool: failed, Device: "gpu-0", BindingConditions: []string{attached}, BindingFailureConditions: []string{broken},
			}}}}
			g.pl.failures.Forget(pods[1].UID)
			g.pl.failures.Note(pods[1].UID, claim)
			view, err := (&gangPods{nil, g.pl, planning.Gang{Pods: pods}, nil, g.nodeInfos(), nil}).View(g.ctx, pods[0])
			require.NoError(t, err)
			for _, info := range g.nodeInfos() {
				want := 0
				if info.Node().Name == failed {
					want = 1
				}
				site := view.Site(info.Node())
				require.Len(t, site.Pools, 1)
				require.Equal(t, want, site.Failed(site.Pools[0].ID, "gpu-0"), "on %s if it has failed on %s", info.Node().Name, failed)
				value, _ := view.Values.Value(info.Node().Name)
				require.Equal(t, want, value.Failed, "on %s if it has failed on %s", info.Node().Name, failed)
			}
		}
	})
}

// TestExtendedResourcesOfAGangThatDoesNotFit: nothing was created, and nothing is held.
func TestExtendedResourcesOfAGangThatDoesNotFit(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{gpuPod("p0", "2", member), gpuPod("p1", "2", member)}
	inGang(t, newPodGroup(), plus(backedNodes(3, "n1"), pods[0], pods[1]), func(t *testing.T, g *gang) {
		require.NotEmpty(t, g.try(pods...)["p1"])
		claims, err := g.client.ResourceV1().ResourceClaims("").List(g.ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, claims.Items)
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
	})
}

// TestDeviceOfAGroupFails: all pods of a gang wait for their group's device, which cannot be attached. The last one to
// notice releases it, and the next attempt starts again.
func TestDeviceOfAGroupFails(t *testing.T) {
	t.Parallel()
	pods, objects := members(3, uses("c"))
	objects = plus(fabricNodes("n1"), plus(objects, gpus("c", 1).Obj())...)
	inGang(t, newPodGroup("c"), objects, func(t *testing.T, g *gang) {
		require.Empty(t, g.try(pods...))
		results := make(chan *fwk.Status, len(pods))
		for i := range pods {
			require.NoError(t, g.reserve(i).AsError())
			go func() { results <- g.preBind(i) }()
		}
		g.settle()
		require.Empty(t, results, "they wait")
		require.Equal(t, []resourceapi.ResourceClaimConsumerReference{groupReservation}, g.claim("c").Status.ReservedFor)

		g.changeClaim("c", report(broken))
		for range pods {
			require.ErrorIs(t, (<-results).AsError(), binding.ErrFailed)
		}
		require.Nil(t, g.claim("c").Status.Allocation)
		require.Empty(t, g.claim("c").Status.ReservedFor)
		require.True(t, g.pl.groups.Empty())
		require.Zero(t, g.pl.state.Ledger.InFlightCount())
	})
}

// TestLeftOverOfAGangThatDoesNotFit: the claim that an earlier process made for the pod's
// extended resources is on a node where the pod cannot be.
func TestLeftOverOfAGangThatDoesNotFit(t *testing.T) {
	t.Parallel()
	inCluster(t, backedNodes(2, "n1", "n2"), func(t *testing.T, f *fixture) {
		pod := gpuPod("p", "2", member)
		f.create(pod)
		g := f.dieOn(pod, "n2", "patch/status", "").gangOf(newPodGroup())
		moved := pod.DeepCopy()
		onlyOn("n1")(moved)
		failures := g.try(moved)
		require.NotEmpty(t, failures["p"])
		require.Contains(t, failures[""], "pod p for extended resources")
		g.settle()
		require.Empty(t, g.claimsFor(pod.UID))
		require.Equal(t, []string{"Normal DevicesReleased Released gpu.example.com/n2/gpu-0, gpu.example.com/n2/gpu-1 on node n2 " +
			"because pod p, for whose extended resources it was made, fits no node with it"}, g.events())
		g.schedule(moved)
		require.Equal(t, []string{"n1"}, g.nodes)
	})
}
