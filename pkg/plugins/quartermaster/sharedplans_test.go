package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestKeepsWhatIsSharedWithVictims: a nominated pod has an allocated claim together with a victim. Nobody waits for its deallocation, and when
// kube-controller-manager has deallocated it for lack of consumers, nobody else gets its devices.
func TestKeepsWhatIsSharedWithVictims(t *testing.T) {
	t.Parallel()
	objects := append(gpuNodes(2, "n1"), holder("victim", "n1", "gpu-0")...)
	both, low := newPod("both", uses("victim"), uses("open"), priority(10)), newPod("low", uses("low"))
	inCluster(t, append(objects, both, low, gpus("open", 1).Obj(), gpus("low", 1).Obj()), func(t *testing.T, f *fixture) {
		plan := []ledger.Use{{Claim: ledger.RefTo(f.claim("open")), Allocation: gpus("open", 1).Allocated("n1", "gpu-1").Status.Allocation}}
		require.True(t, f.pl.nominated.Keep(f.ctx, both, "n1", plan, nil, []*v1.Pod{f.pod("victim")}))
		require.Empty(t, f.pl.state.nominations.Of(both.UID).Awaited)
		f.remove(f.pod("victim"))
		f.changeClaim("victim", func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation, claim.Status.ReservedFor = nil, nil })
		f.settle()
		require.Equal(t, "Filter", f.schedule(low).phase)
		require.Equal(t, "n1", f.schedule(both).node)
	})
	only := newPod("only", uses("victim"), priority(10))
	inCluster(t, append(objects, only, low, gpus("low", 2).Obj()), func(t *testing.T, f *fixture) {
		require.False(t, f.pl.nominated.Keep(f.ctx, low, "n1", []ledger.Use{}, nil, nil), "there is nothing to keep")
		require.True(t, f.pl.nominated.Keep(f.ctx, only, "n1", []ledger.Use{}, nil, []*v1.Pod{f.pod("victim")}))
		f.remove(f.pod("victim"))
		f.changeClaim("victim", func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation, claim.Status.ReservedFor = nil, nil })
		f.settle()
		require.Equal(t, "Filter", f.schedule(low).phase)
		f.remove(f.claim("victim"))
		f.settle()
		require.Equal(t, "n1", f.schedule(low).node, "nothing is kept for a claim that was deleted")
	})
}

// TestPlanLeavesWhatIsShared: a nominated pod that has an allocated claim together with a victim is not to get its devices once more.
func TestPlanLeavesWhatIsShared(t *testing.T) {
	t.Parallel()
	objects := append(gpuNodes(2, "n1"), holder("victim", "n1", "gpu-0", priority(0), endsLate)...)
	objects = append(objects, holder("other", "n1", "gpu-1", priority(0), endsLate)...)
	both := newPod("both", of("other"), uses("victim"), uses("open"), priority(10), nominatedFor("n1"))
	inCluster(t, append(objects, both, gpus("open", 1).Obj()), func(t *testing.T, f *fixture) {
		require.Empty(t, f.pl.nominated.PlanNominated(f.ctx, newPod("low")))
		nomination := f.pl.state.nominations.Of(both.UID)
		require.Equal(t, "gpu-1", nomination.Plan[0].Allocation.Devices.Results[0].Device)
		require.Equal(t, "gpu-0", nomination.Relies[0].Allocation.Devices.Results[0].Device)
	})
}

// TestClaimInSeveralPlans: devices count once that several nominated pods are to get for a claim that they share.
func TestClaimInSeveralPlans(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(3, "n1"), gpus("shared", 1).Obj(), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		claim := f.claim("shared")
		for name, device := range map[string]string{"one": "gpu-0", "same": "gpu-0", "other": "gpu-1"} {
			f.pl.state.nominations.Set(&preemption.Nomination{Pod: newPod(name).UID, Node: "n1", Plan: []ledger.Use{{
				Claim: ledger.RefTo(claim), Allocation: gpus("shared", 1).Allocated("n1", device).Status.Allocation,
			}}})
		}
		require.Len(t, f.pl.nominated.PlannedAgainst(newPod("p", uses("c")), 0, nil), 2, "devices on another node are kept as well: it is not known yet which the claim gets")
		require.Empty(t, f.pl.nominated.PlannedAgainst(newPod("p", uses("shared")), 0, nil))
	})
}

// TestGangKeepsToItsOwnClaims: what is kept for a claim of the gang's second pod does not keep the gang from its node.
func TestGangKeepsToItsOwnClaims(t *testing.T) {
	t.Parallel()
	pods := []*v1.Pod{newPod("p0", member, uses("a")), newPod("p1", member, uses("shared"))}
	theirs := newPod("theirs", of("other"), uses("shared"), priority(10), nominatedFor("n1"))
	objects := plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("shared", 1).Obj(), gpus("b", 2).Obj(), pods[0], pods[1], theirs)
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		require.Equal(t, "Filter", g.fixture.schedule(newPod("outside", uses("b"))).phase, "a device is kept for the claim")
		out, err := g.pl.planPods(g.ctx, g.nodeInfos(), planning.Gang{Name: "default/gang", Pods: pods, Need: 2}, nil)
		require.NoError(t, err)
		require.NotNil(t, out.Plan, "%+v", out)
	})
	onlyOn("elsewhere")(pods[1])
	objects = plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("shared", 1).Obj(), pods[0], pods[1], theirs)
	inGang(t, newPodGroup(), objects, func(t *testing.T, g *gang) {
		g.fixture.schedule(newPod("outside", uses("a")))
		out, err := g.pl.planPods(g.ctx, g.nodeInfos(), planning.Gang{Name: "default/gang", Pods: pods, Need: 1}, nil)
		require.NoError(t, err)
		require.Nil(t, out.Plan, "the first pod alone must not take what is kept for the claim of the second one")
	})
}

// TestNobodyIsEvictedTwiceForAClaim: a pod evicts nobody while others are being evicted for a claim that it shares.
func TestNobodyIsEvictedTwiceForAClaim(t *testing.T) {
	t.Parallel()
	objects := append(gpuNodes(1, "n1", "n2"), holder("a", "n1", "gpu-0", priority(0))...)
	objects = append(objects, holder("b", "n2", "gpu-0", priority(0))...)
	first, second, higher := newPod("first", of("default"), uses("shared"), priority(10)), newPod("second", uses("shared"), priority(10)), newPod("higher", uses("shared"), priority(11))
	inCluster(t, append(objects, first, second, higher, gpus("shared", 1).Obj()), func(t *testing.T, f *fixture) {
		victim := f.pod("a").DeepCopy()
		plan := []ledger.Use{{Claim: ledger.RefTo(f.claim("shared")), Allocation: gpus("shared", 1).Allocated("n1", "gpu-0").Status.Allocation}}
		require.True(t, f.pl.nominated.Keep(f.ctx, first, "n1", plan, nil, []*v1.Pod{victim}))
		for _, shown := range []bool{false, true} { // The eviction is under way in the background, and the informer shows it later.
			if shown {
				endsLate(victim)
				f.arrive(victim)
				time.Sleep(time.Minute)
			}
			p := preempt(t, f, second)
			require.Empty(t, p.victims)
			require.Equal(t, fwk.UnschedulableAndUnresolvable, p.status.Code())
			require.Contains(t, p.status.Message(), "a claim of this pod is to get devices on node n1 and pods are being evicted for that already")
		}
		require.NotContains(t, preempt(t, f, higher).status.Message(), "for that already", "it does not wait for a pod of lower priority")
	})
}

// TestOneHoldForAClaim: of pods that wait for long and share a claim, one gets a hold for it, also while that one is being tried.
func TestOneHoldForAClaim(t *testing.T) {
	t.Parallel()
	objects := append(gpuNodes(2, "n1"), gpus("s", 1).Obj(), gpus("t", 1).Obj())
	for _, held := range [][3]string{{"a", "n1", "gpu-0"}, {"b", "n1", "gpu-1"}} {
		objects = append(objects, holder(held[0], held[1], held[2])...)
	}
	for _, name := range []string{"one", "two"} {
		objects = append(objects, newPod(name, of("default"), uses("s"), waitsFor(5*time.Minute)))
	}
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		f.pl.args.MaxHeldPercent, f.pl.args.MaxHeldPercentPerNamespace = ptr.To[int32](100), ptr.To[int32](100)
		holders := func() (names []string) {
			f.pl.state.planHolds(f.ctx)
			for _, h := range f.pl.state.holds.Holds() {
				names = append(names, h.Name)
			}
			return names
		}
		require.Equal(t, "Filter", f.schedule(newPod("small", uses("t"))).phase)
		require.Equal(t, []string{"default/one"}, holders())
		f.gone("a")
		a := f.mustBegin(f.pod("one")).filter()
		require.NoError(t, a.reserve("n1").AsError())
		require.Equal(t, []string{"default/one"}, holders())
		a.unreserve("n1")
		f.remove(f.pod("one"))
		f.settle()
		require.Equal(t, []string{"default/two"}, holders())
	})
}

// TestWakesWhenASharerEnds: a pod may evict those who share a claim as soon as the one of a higher priority has ended. That frees no device.
func TestWakesWhenASharerEnds(t *testing.T) {
	t.Parallel()
	objects := append(gpuNodes(1, "n1"), holder("low", "n1", "gpu-0", priority(0))...)
	equal := newPod("equal", uses("low"), runsOn("n1"), priority(0))
	sharer, pod, nic := newPod("sharer", uses("low"), runsOn("n1"), priority(20)), high("p", uses("c")), newPod("other", uses("nic"))
	objects[len(objects)-1] = with(objects[len(objects)-1].(*resourceapi.ResourceClaim), reservedFor("low", "equal", "sharer"))
	objects = append(objects, equal, sharer, pod, nic, gpus("c", 1).Obj(), builder.Class("nic", `device.driver == "nic.example.com"`), builder.Claim("nic", builder.Request("r", "nic")).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.sleep(pod, nic)
		f.remove(equal)
		f.settle()
		require.Empty(t, f.names(), "nobody may evict the others")
		f.remove(sharer)
		f.settle()
		require.Equal(t, []string{"default/p"}, f.names())
	})
}
