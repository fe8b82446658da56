package quartermaster

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// alsoWithout are arguments with which pods without devices are placed as well.
var alsoWithout = &QuartermasterArgs{PlacePodsWithoutDevices: ptr.To(true)}

// plain is a pod without devices that requests two cores.
func plain(name string, edits ...func(*v1.Pod)) *v1.Pod {
	return newPod(name, append([]func(*v1.Pod){builder.Container("c", "cpu", "2", "memory", "1Gi")}, edits...)...)
}

// sized makes nodes of the given number of cores with that many GPUs each.
func sized(cores string, gpus int, names ...string) (objects []runtime.Object) {
	for _, name := range names {
		node := builder.Node(name)
		node.Status.Allocatable = builder.Resources("cpu", cores, "memory", cores+"Gi", "pods", "110")
		objects = append(objects, node)
		if gpus > 0 {
			objects = append(objects, builder.NodeSlice(name, builder.NumberedDevices("gpu", gpus)...).Obj())
		}
	}
	return objects
}

// usual are pods that show what is likely: a GPU with four cores.
func usual() (objects []runtime.Object) {
	for i := range 20 {
		name := fmt.Sprintf("old-%d", i)
		pod := newPod(name, uses(name), builder.Container("c", "cpu", "4", "memory", "4Gi"))
		pod.Spec.NodeName = "elsewhere"
		objects = append(objects, pod, gpus(name, 1).Obj())
	}
	return objects
}

// TestPodsWithoutDevicesLeaveRoom: nodes without devices are best, then those whose devices are held or tainted, then
// those where CPU is left over, and last those where likely pods need all of it.
func TestPodsWithoutDevicesLeaveRoom(t *testing.T) {
	t.Parallel()
	objects := plus(usual(), builder.Class("gpu"), gpus("held", 2).Allocated("held", "gpu-0", "gpu-1"))
	objects = plus(objects, sized("8", 0, "none")...)
	objects = plus(objects, sized("8", 2, "held", "scarce")...)
	objects = plus(objects, sized("64", 2, "ample")...)
	tainted := builder.NumberedDevices("gpu", 2)
	for _, gpu := range tainted {
		gpu.Taint("broken", resourceapi.DeviceTaintEffectNoSchedule)
	}
	objects = plus(objects, append(sized("8", 0, "tainted"), builder.NodeSlice("tainted", tainted...).Obj())...)
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.pl.args.PlacePodsWithoutDevices = ptr.To(true)
		_, points := f.mustBegin(plain("p")).filter().scores()
		require.EqualValues(t, 100, points["none"], "%v", points)
		require.Equal(t, points["held"], points["tainted"])
		require.Greater(t, points["none"], points["held"])
		require.Greater(t, points["held"], points["ample"])
		require.Greater(t, points["ample"], points["scarce"])
	})
}

// TestPodsWithoutDevicesAreNamedNodes: those that cost the least, also the only one without devices of many. Without
// the argument the plugin has nothing to do.
func TestPodsWithoutDevicesAreNamedNodes(t *testing.T) {
	t.Parallel()
	objects := plus(roomyNodes(150, 77), sized("8", 0, "none")...)
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		p := newProfileWith(f, alsoWithout, Name, "Evictor")
		_, named := p.preFilter(f, plain("p"))
		require.Len(t, named, mostBest)
		require.Contains(t, named, "none")
		_, named = p.preFilter(f, plain("large", builder.Container("d", "cpu", "20")))
		require.Nil(t, named, "no node has room")
		a := f.mustBegin(plain("p"))
		require.True(t, a.skipped)
		require.True(t, f.pl.PreScore(f.ctx, a.state, a.pod, f.nodeInfos()).IsSkip())
		require.Nil(t, f.pl.withoutDevicesIn(a.state))
	})
}

// TestPodsWithoutDevicesFallBack: if other plugins reject the named nodes, the pod is tried on all nodes from then on,
// and nobody is evicted before that.
func TestPodsWithoutDevicesFallBack(t *testing.T) {
	t.Parallel()
	pod := plain("p")
	inCluster(t, plus(roomyNodes(150, 77), pod), func(t *testing.T, f *fixture) {
		p := newProfileWith(f, alsoWithout, Name, "Evictor")
		state, named := p.preFilter(f, pod)
		require.NotEmpty(t, named)
		status := p.reject(f, state, pod, named[0])
		require.True(t, status.IsSuccess(), "%v", status)
		require.Contains(t, status.Message(), "looking again")
		require.Empty(t, p.evictor.asked)
		require.Equal(t, []string{"default/p"}, f.activator.names())
		for range 2 {
			state, named = p.preFilter(f, pod)
			require.Nil(t, named)
		}
		require.Equal(t, fwk.Unschedulable, p.reject(f, state, pod, "n0").Code())
		require.Equal(t, []string{"p"}, p.evictor.asked)
	})
}

// TestPodsLeftAlone: who says what they prefer, who have their node, and who are placed together.
func TestPodsLeftAlone(t *testing.T) {
	t.Parallel()
	affinity := func(a v1.Affinity) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Affinity = &a } }
	weighted := []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: v1.PodAffinityTerm{TopologyKey: "zone"}}}
	spread := func(how v1.UnsatisfiableConstraintAction) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: how}}
		}
	}
	for name, test := range map[string]struct {
		edit  func(*v1.Pod)
		named bool
		alone bool
	}{
		"nothing to say": {edit: func(*v1.Pod) {}, named: true},
		"node selector":  {edit: func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"odd": "false"} }},
		"no requests":    {edit: func(pod *v1.Pod) { pod.Spec.Containers = nil }, alone: true},
		"preferred node": {alone: true, edit: affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1}}}})},
		"preferred pods": {alone: true, edit: affinity(v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}})},
		"shunned pods":   {alone: true, edit: affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}})},
		"spread":         {alone: true, edit: spread(v1.ScheduleAnyway)},
		"strict spread":  {edit: spread(v1.DoNotSchedule)},
		"a gang":         {alone: true, edit: member},
		"a group":        {alone: true, edit: func(pod *v1.Pod) { pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("g")} }},
		"a node of its own": {alone: true, edit: affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}}}}}})},
		"a volume": {edit: func(pod *v1.Pod) {
			pod.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
		}},
		"other resources":         {edit: builder.Container("d", "example.com/fpga", "1")},
		"nominated for some node": {edit: func(pod *v1.Pod) { pod.Status.NominatedNodeName = "n1" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, roomyNodes(4, 1), func(t *testing.T, f *fixture) {
				p := newProfileWith(f, alsoWithout, Name, "Evictor")
				f.pl.args.PlacePodsWithoutDevices = ptr.To(true)
				pod, state := plain("p", test.edit), framework.NewCycleState()
				result, _ := f.pl.placeWithoutDevices(f.ctx, state, pod, f.nodeInfos())
				require.Nil(t, result, "in a profile where others come first")
				require.Equal(t, test.alone, f.pl.withoutDevicesIn(state) == nil)
				if !test.alone {
					_, named := p.preFilter(f, pod)
					require.Equal(t, test.named, named != nil)
				}
			})
		})
	}
}

// TestTaintsThatDiscourage: a taint PreferNoSchedule is stronger than what devices need, unless the pod tolerates it.
func TestTaintsThatDiscourage(t *testing.T) {
	t.Parallel()
	objects := plus(roomyNodes(2, 1), sized("8", 0, "none")...)
	objects[len(objects)-1].(*v1.Node).Spec.Taints = []v1.Taint{{Key: "spare", Effect: v1.TaintEffectPreferNoSchedule}}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		p := newProfileWith(f, alsoWithout, Name, "Evictor")
		f.pl.args.PlacePodsWithoutDevices = ptr.To(true)
		_, named := p.preFilter(f, plain("p"))
		require.ElementsMatch(t, []string{"n0", "n1"}, named)
		_, points := f.mustBegin(plain("p")).filter().scores()
		require.Zero(t, points["none"])
		require.EqualValues(t, 100, max(points["n0"], points["n1"]))

		tolerant := plain("tolerant")
		tolerant.Spec.Tolerations = []v1.Toleration{{Key: "spare", Operator: v1.TolerationOpExists}}
		_, named = p.preFilter(f, tolerant)
		require.ElementsMatch(t, []string{"n0", "n1", "none"}, named)
		_, points = f.mustBegin(tolerant).filter().scores()
		require.EqualValues(t, 100, points["none"])
	})
}

// TestReplicasAreSpread: among nodes that cost nearly the same, the plugin leaves replicas to kube-scheduler, which
// spreads them. Nodes without devices still come first.
func TestReplicasAreSpread(t *testing.T) {
	t.Parallel()
	of := func(kind string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "u", Controller: ptr.To(true)}}
		}
	}
	objects := plus(usual(), builder.Class("gpu"))
	objects = plus(objects, sized("64", 2, "a")...)
	objects = plus(objects, sized("70", 2, "b")...)
	inCluster(t, plus(objects, sized("8", 0, "none")...), func(t *testing.T, f *fixture) {
		f.pl.args.PlacePodsWithoutDevices = ptr.To(true)
		for kind, equal := range map[string]bool{"ReplicaSet": true, "StatefulSet": true, "Job": false} {
			_, points := f.mustBegin(plain("p", of(kind))).filter().scores()
			require.Equal(t, equal, points["a"] == points["b"], "%s: %v", kind, points)
			require.EqualValues(t, 100, points["none"], kind)
			require.Less(t, points["a"], points["none"], kind)
		}
	})
}

// TestReplicasAreNamedFewNodes: of many nodes that cost the same, kube-scheduler looks at some in all zones.
func TestReplicasAreNamedFewNodes(t *testing.T) {
	t.Parallel()
	replica := plain("p")
	replica.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: ptr.To(true)}}
	for _, n := range []int{mostBest - 1, mostBest + 1} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		inCluster(t, sized("8", 0, names...), func(t *testing.T, f *fixture) {
			p := newProfileWith(f, alsoWithout, Name, "Evictor")
			_, named := p.preFilter(f, replica)
			require.Equal(t, n < mostBest, named != nil)
			_, named = p.preFilter(f, plain("single"))
			require.Len(t, named, min(n, mostBest))
		})
	}
}

// TestSameNodesFit: in worlds made at random, a pod without devices gets a node exactly if some node admits it and
// others do not reject that.
func TestSameNodesFit(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewSource(1))
	for world := range 12 {
		var objects []runtime.Object
		names := make([]string, 1+rng.Intn(100))
		for i := range names {
			names[i] = fmt.Sprintf("n%d", i)
			objects = plus(objects, sized(fmt.Sprint(1+rng.Intn(6)), rng.Intn(3), names[i])...)
			node := objects[slices.IndexFunc(objects, func(o runtime.Object) bool { n, is := o.(*v1.Node); return is && n.Name == names[i] })].(*v1.Node)
			node.Labels["odd"] = fmt.Sprint(rng.Intn(2) == 0)
			if rng.Intn(4) == 0 {
				node.Spec.Taints = []v1.Taint{{Key: "t", Effect: []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule}[rng.Intn(2)]}}
			}
		}
		var pods []*v1.Pod
		for i := range 20 {
			pod := newPod(fmt.Sprintf("p%d", i), builder.Container("c", "cpu", fmt.Sprint(1+rng.Intn(6))))
			if rng.Intn(2) == 0 {
				pod.Spec.NodeSelector = map[string]string{"odd": "true"}
			}
			pods, objects = append(pods, pod), append(objects, pod)
		}
		pass := rng.Intn(len(names) + 1)
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				p := newProfileWith(f, alsoWithout, Name, "Evictor")
				for i, pod := range pods {
					// What all other plugins say of a node: some of it nobody can foresee.
					others := func(name string) bool {
						return rand.New(rand.NewSource(int64(i*1000+slices.Index(names, name)))).Intn(len(names)) < pass && f.admits(pod, name)
					}
					require.Equal(t, slices.ContainsFunc(names, others), p.attempts(f, pod, names, others), "pod %d", i)
				}
			})
		})
	}
}

// admits reports whether a node has room for the pod, its labels and no taint.
func (f *fixture) admits(pod *v1.Pod, name string) bool {
	node, err := f.pl.nodes.Get(name)
	require.NoError(f.t, err)
	return pod.Spec.Containers[0].Resources.Requests.Cpu().Cmp(*node.Status.Allocatable.Cpu()) <= 0 &&
		(pod.Spec.NodeSelector == nil || node.Labels["odd"] == "true") &&
		!slices.ContainsFunc(node.Spec.Taints, func(taint v1.Taint) bool { return taint.Effect == v1.TaintEffectNoSchedule })
}

// attempts tries a pod until it fits or the plugin does not look again, and reports whether it fits.
func (p *profile) attempts(f *fixture, pod *v1.Pod, all []string, others func(string) bool) bool {
	for range 3 {
		state, named := p.preFilter(f, pod)
		if named == nil {
			named = all
		}
		if slices.ContainsFunc(named, others) {
			return true
		}
		if _, status := p.framework.RunPostFilterPlugins(f.ctx, state, pod, framework.NewDefaultNodeToStatus()); !status.IsSuccess() {
			return false
		}
	}
	f.t.Error("the plugin looks again and again")
	return false
}
