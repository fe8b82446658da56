package quartermaster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gangOfNode is a gang in a world with devices that take resources of their node, and with NodeResourcesFit.
type gangOfNode struct {
	*ofNodeWorld
	// ofAPI is set for a PodGroup of Kubernetes. cycle is the state of its attempt.
	ofAPI bool
	cycle *framework.CycleState
	// placed are the pods that have a node, in their order, with their states.
	placed []*v1.Pod
	states []fwk.CycleState
}

// newGang makes a PodGroup of one kind for pods. All of them must run.
func (w *ofNodeWorld) newGang(ofAPI bool, pods []*v1.Pod) *gangOfNode {
	g := &gangOfNode{ofNodeWorld: w, ofAPI: ofAPI, cycle: framework.NewCycleState()}
	for _, pod := range pods {
		if ofAPI {
			member(pod)
		} else {
			pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "gang"}
		}
		w.create(pod)
	}
	if ofAPI {
		group := newPodGroup()
		group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(len(pods))}
		w.gangOf(group).trying = pods
	} else {
		group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: int32(len(pods))}}
		group.Name, group.Namespace, group.UID = "gang", builder.Namespace, "uid-gang"
		w.pl.state.podGroups.Set(group)
	}
	w.pl.handle = fitHandle{Handle: w.pl.handle, run: withResources(w.fixture)}
	w.settle()
	return g
}

// fitHandle asks NodeResourcesFit, and no other plugin.
type fitHandle struct {
	fwk.Handle
	run framework.Framework
}

func (h fitHandle) RunPreFilterPlugins(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return h.run.RunPreFilterPlugins(ctx, cs, pod)
}

func (h fitHandle) RunFilterPlugins(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	return h.run.RunFilterPlugins(ctx, cs, pod, info)
}

func (h fitHandle) RunPreFilterExtensionAddPod(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	return h.run.RunPreFilterExtensionAddPod(ctx, cs, pod, added, info)
}

func (h fitHandle) RunPreFilterExtensionRemovePod(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, info fwk.NodeInfo) *fwk.Status {
	return h.run.RunPreFilterExtensionRemovePod(ctx, cs, pod, removed, info)
}

func (h fitHandle) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

// withResources is a profile with NodeResourcesFit.
func withResources(f *fixture) framework.Framework {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	only := func(name string) config.PluginSet { return config.PluginSet{Enabled: []config.Plugin{{Name: name}}} }
	args := &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{
		Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}},
	}}
	var nodes []*v1.Node
	for _, info := range f.nodeInfos() {
		nodes = append(nodes, info.Node())
	}
	made, err := frameworkruntime.NewFramework(f.ctx,
		frameworkruntime.Registry{queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New,
			noderesources.Name: frameworkruntime.FactoryAdapter(features, noderesources.NewFit)},
		&config.KubeSchedulerProfile{SchedulerName: "resources", Plugins: &config.Plugins{
			QueueSort: only(queuesort.Name), Bind: only(defaultbinder.Name), PreFilter: only(noderesources.Name), Filter: only(noderesources.Name),
		}, PluginConfig: []config.PluginConfig{{Name: noderesources.Name, Args: args}}},
		frameworkruntime.WithClientSet(f.client), frameworkruntime.WithInformerFactory(f.factory),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewSnapshot(nil, nodes)),
	)
	require.NoError(f.t, err)
	return made
}

// place tries a pod until it is reserved, beside those that have a node. It returns why it cannot be.
func (g *gangOfNode) place(pod *v1.Pod) string {
	cs := framework.NewCycleState()
	if g.ofAPI {
		cs.SetPodGroupSchedulingCycle(g.cycle)
	}
	infos := g.besides(g.placed...)
	result, status := g.pl.PreFilter(g.ctx, cs, pod, infos)
	skips := status.IsSkip()
	if !skips && !status.IsSuccess() {
		return status.Message()
	}
	run, fit, why := g.pl.handle.(fitHandle).run, framework.NewCycleState(), ""
	_, _, _ = run.RunPreFilterPlugins(g.ctx, fit, pod)
	for _, info := range infos {
		name := info.Node().Name
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			continue
		}
		status := run.RunFilterPlugins(g.ctx, fit, pod, info)
		if status.IsSuccess() && !skips {
			status = g.pl.Filter(g.ctx, cs, pod, info)
		}
		if !status.IsSuccess() {
			why += name + ": " + status.Message() + "; "
			continue
		}
		planned := assumed(cs, pod, name)
		require.NoError(g.t, g.pl.Reserve(g.ctx, cs, planned, name).AsError())
		g.placed, g.states = append(g.placed, planned), append(g.states, cs)
		return ""
	}
	return why + "no node"
}

// besides returns the nodes with more pods on them.
func (w *ofNodeWorld) besides(pods ...*v1.Pod) []fwk.NodeInfo {
	infos := w.infos()
	for _, info := range infos {
		for _, pod := range pods {
			if pod.Spec.NodeName == info.Node().Name {
				addPod(w.t, info, pod)
			}
		}
	}
	return infos
}

// commitAll goes on from Reserve to the binding of all pods.
func (g *gangOfNode) commitAll() {
	if g.ofAPI { // kube-scheduler undoes the reservations, and makes them once more.
		for i := len(g.placed) - 1; i >= 0; i-- {
			g.pl.Unreserve(g.ctx, g.states[i], g.placed[i], g.placed[i].Spec.NodeName)
		}
	}
	var done sync.WaitGroup
	for i, pod := range g.placed {
		cs, node := g.states[i].(*framework.CycleState), pod.Spec.NodeName
		if g.ofAPI {
			cs.SetPodGroupSchedulingCycle(nil)
			require.NoError(g.t, g.pl.Reserve(g.ctx, cs, pod, node).AsError())
		}
		g.pl.Permit(g.ctx, cs, pod, node)
		done.Go(func() {
			if _, status := g.pl.PreBindPreFlight(g.ctx, cs, pod, node); !status.IsSkip() {
				if status := g.pl.PreBind(g.ctx, cs, pod, node); !status.IsSuccess() {
					g.t.Errorf("pod %s: %v", pod.Name, status)
				}
			}
		})
	}
	done.Wait()
	for i, pod := range g.placed {
		stored := g.stored(pod.Name)
		require.True(g.t, quantity.DeepEqual(pod.Status.NodeAllocatableResourceClaimStatuses, stored.Status.NodeAllocatableResourceClaimStatuses), pod.Name)
		stored.Spec.NodeName = pod.Spec.NodeName
		g.replace(stored)
		g.pl.PostBind(g.ctx, g.states[i], pod, pod.Spec.NodeName)
	}
	g.settle()
	for _, info := range g.infos() {
		requireEnough(g.t, info)
	}
}

// requireEnough: the pods on a node take no more than it has.
func requireEnough(t *testing.T, info fwk.NodeInfo) {
	t.Helper()
	has, takes, name := info.GetAllocatable(), info.GetRequested(), info.Node().Name
	require.LessOrEqual(t, takes.GetMilliCPU(), has.GetMilliCPU(), name)
	require.LessOrEqual(t, takes.GetMemory(), has.GetMemory(), name)
	for resource, amount := range takes.GetScalarResources() {
		require.LessOrEqual(t, amount, has.GetScalarResources()[resource], "%s: %s", name, resource)
	}
}

// forBothKinds runs a test for both kinds of PodGroups.
func forBothKinds(t *testing.T, test func(t *testing.T, ofAPI bool)) {
	for name, ofAPI := range map[string]bool{"scheduling.x-k8s.io": false, "scheduling.k8s.io": true} {
		t.Run(name, func(t *testing.T) { test(t, ofAPI) })
	}
}

// TestGangAccounts: the devices of all pods of a gang must find enough on their nodes together, beside pods without devices.
func TestGangAccounts(t *testing.T) {
	// Each node has four CPUs and more devices than that.
	cluster := plus(cpuNode("n1", 8, 0), cpuNode("n2", 8, 0)[:2]...)
	cpus := func(cpu string) func(*v1.Pod) { return builder.Container("c", "cpu", cpu) }
	for name, test := range map[string]struct {
		pods   []*v1.Pod
		claims []runtime.Object
		why    string
		// allocated is set if a claim is allocated already.
		allocated bool
	}{
		"on two nodes": {
			pods:   []*v1.Pod{newPod("a", uses("a"), cpus("1")), newPod("b", uses("b"), cpus("1")), newPod("c", uses("c"), cpus("1"))},
			claims: []runtime.Object{gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj()},
		},
		"too much": {
			pods:   []*v1.Pod{newPod("a", uses("a")), newPod("b", uses("b")), newPod("c", uses("c"))},
			claims: []runtime.Object{gpus("a", 3).Obj(), gpus("b", 3).Obj(), gpus("c", 3).Obj()},
			why:    "Insufficient cpu: 3 asked with the pod's devices; 1 of 4 left on the node",
		},
		"beside pods without devices": {
			pods:   []*v1.Pod{newPod("a", uses("a")), newPod("b", cpus("3")), newPod("c", cpus("2")), newPod("d", uses("d"))},
			claims: []runtime.Object{gpus("a", 2).Obj(), gpus("d", 1).Obj()},
		},
		"a claim for one pod": {
			pods:   []*v1.Pod{newPod("a", uses("a")), newPod("b", uses("a"))},
			claims: []runtime.Object{gpus("a", 1).Obj()},
			why:    "has a mapped device and cannot be shared across pods",
		},
		"an allocated claim for one pod": { // Nobody has reserved it yet.
			pods:   []*v1.Pod{newPod("a", uses("a")), newPod("b", uses("a"))},
			claims: []runtime.Object{with(gpus("a", 1).Obj(), allocate("n1", "cpu-0"), onNode("n1"))},
			why:    "has a mapped device and cannot be shared across pods", allocated: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			forBothKinds(t, func(t *testing.T, ofAPI bool) {
				if ofAPI && test.allocated {
					t.Skip("pods of the API's groups are refused when their claims are written, see TestNodeAllocatableForOnePod")
				}
				accounting(t, plus(cluster, test.claims...), func(t *testing.T, w *ofNodeWorld) {
					var pods []*v1.Pod
					for _, pod := range test.pods {
						pods = append(pods, pod.DeepCopy())
					}
					g := w.newGang(ofAPI, pods)
					var whys []string
					for _, pod := range pods {
						if why := g.place(pod); why != "" {
							whys = append(whys, why)
						}
					}
					if test.why != "" {
						require.Contains(t, fmt.Sprint(whys), test.why)
						require.NotContains(t, fmt.Sprint(whys), ",")
						for i := len(g.placed) - 1; i >= 0; i-- {
							g.pl.Unreserve(g.ctx, g.states[i], g.placed[i], g.placed[i].Spec.NodeName)
						}
						return
					}
					require.Empty(t, whys)
					g.commitAll()
				})
			})
		})
	}
}

// TestNodeAllocatableForOnePod: two pods are tried with the same allocated claim before either is reserved. Only one gets its CPU.
func TestNodeAllocatableForOnePod(t *testing.T) {
	claim := with(gpus("one", 1).Obj(), allocate("n1", "cpu-0"), onNode("n1"))
	accounting(t, plus(cpuNode("n1", 1, 0), claim), func(t *testing.T, w *ofNodeWorld) {
		first, second := newPod("first", uses("one")), newPod("second", uses("one"))
		w.create(first)
		w.create(second)
		w.settle()
		_, a := w.judge(w.pl, first)
		_, b := w.judge(w.pl, second)
		first, second = assumed(a, first, "n1"), assumed(b, second, "n1")
		require.Nil(t, w.pl.Reserve(w.ctx, b, second, "n1"))
		w.commit(a, first)
		status := w.pl.PreBind(w.ctx, b, second, "n1")
		require.Contains(t, status.Message(), "1 consumers (the limit is 1)")
		w.pl.Unreserve(w.ctx, b, second, "n1")
		require.Equal(t, "first", w.claim("one").Status.ReservedFor[0].Name)
		require.Len(t, w.claim("one").Status.ReservedFor, 1)
		require.Empty(t, w.stored("second").Status.NodeAllocatableResourceClaimStatuses)
	})
}

// TestGangAccountsAsInTree compares random gangs with the in-tree plugin, which takes the pods one after the other: if all fit
// that way, the gang fits. Its nodes then have enough, and the in-tree plugin agrees about what each pod takes.
func TestGangAccountsAsInTree(t *testing.T) {
	planned := 0
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 49))
			mixed, ofAPI := seed%3 == 2, seed%2 == 0
			accounting(t, randomNodes(r, mixed), func(t *testing.T, w *ofNodeWorld) {
				var pods []*v1.Pod
				var shared []string
				for i := range 2 + r.IntN(3) {
					name := fmt.Sprint("p", i)
					claims := []string{name + "-a"}
					w.create(randomClaim(r, claims[0]))
					if len(shared) > 0 && r.IntN(4) == 0 {
						claims = append(claims, pick(r, shared...))
					}
					if shared = append(shared, claims[0]); r.IntN(5) == 0 {
						claims = nil
					}
					pods = append(pods, randomPod(r, name, claims))
				}
				g := w.newGang(ofAPI, pods)
				fits := w.inTreeTakes(pods, withResources(w.fixture))
				for _, pod := range pods {
					if why := g.place(pod); why != "" {
						require.False(t, fits && !mixed, "the in-tree plugin finds nodes for all: %s", why)
						for i := len(g.placed) - 1; i >= 0; i-- {
							g.pl.Unreserve(g.ctx, g.states[i], g.placed[i], g.placed[i].Spec.NodeName)
						}
						return
					}
				}
				planned++
				g.commitAll()
				for _, pod := range g.placed {
					again, _ := w.judgeWith(w.inTree, w.stored(pod.Name), w.infosWithout(pod.Name))
					takes := again[pod.Spec.NodeName].Takes
					require.True(t, quantity.DeepEqual(takes, pod.Status.NodeAllocatableResourceClaimStatuses), "%+v", again)
				}
			})
		})
	}
	require.Greater(t, planned, 10)
}

// inTreeTakes reports whether the in-tree plugin and NodeResourcesFit find nodes for pods one after the other.
func (w *ofNodeWorld) inTreeTakes(pods []*v1.Pod, others framework.Framework) bool {
	cycle := framework.NewCycleState()
	var placed []*v1.Pod
	for _, pod := range pods {
		cs, fit := framework.NewCycleState(), framework.NewCycleState()
		cs.SetPodGroupSchedulingCycle(cycle)
		infos, found := w.besides(placed...), false
		_, status := w.inTree.PreFilter(w.ctx, cs, pod, infos)
		_, _, _ = others.RunPreFilterPlugins(w.ctx, fit, pod)
		for _, info := range infos {
			name := info.Node().Name
			if found || !others.RunFilterPlugins(w.ctx, fit, pod, info).IsSuccess() {
				continue
			}
			if !status.IsSkip() && !(status.IsSuccess() && w.inTree.Filter(w.ctx, cs, pod, info).IsSuccess()) {
				continue
			}
			found = true
			planned := assumed(cs, pod, name)
			placed = append(placed, planned)
			require.NoError(w.t, w.inTree.Reserve(w.ctx, cs, planned, name).AsError())
			defer w.inTree.Unreserve(w.ctx, cs, planned, name)
		}
		if !found {
			return false
		}
	}
	return true
}
