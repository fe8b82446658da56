package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// consolidating has the profile use few nodes, with the cost of nodes in label cost.
func (f *fixture) consolidating(running ...*v1.Pod) {
	f.pl.args.Strategy, f.pl.args.PlacePodsWithoutDevices, f.pl.args.NodeCostLabel = Consolidate, ptr.To(true), "cost"
	f.pl.objectives = config.NewObjectives(f.pl.args)
	f.running = running
}

// runs is a pod without devices that runs on a node; owner may be the kind of its owner.
func runs(node, owner string) *v1.Pod {
	pod := plain("on-" + node + owner)
	pod.Spec.NodeName = node
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "o", UID: "u", Controller: ptr.To(true)}}
	}
	return pod
}

// costing are nodes with a cost each and GPUs.
func costing(gpus int, costs map[string]string) (objects []runtime.Object) {
	for name, cost := range costs {
		nodes := sized("16", gpus, name)
		nodes[0].(*v1.Node).Labels["cost"] = cost
		objects = append(objects, nodes...)
	}
	return objects
}

// TestNodesInUseFirst: pods with devices and without go to nodes that run something already, to cheap ones first, and
// to the cheapest empty node only if no other fits.
func TestNodesInUseFirst(t *testing.T) {
	t.Parallel()
	objects := plus(costing(4, map[string]string{"dear": "3", "cheap": "2", "daemons": "1", "empty": "1.5"}), sized("16", 1, "small")...)
	objects = plus(objects, sized("16", 0, "none")...)
	objects = plus(objects, builder.Class("gpu"), gpus("mine", 1).Obj(), gpus("three", 3).Obj(), gpus("held", 2).Allocated("cheap", "gpu-0", "gpu-1"),
		gpus("held-too", 2).Allocated("dear", "gpu-0", "gpu-1"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.consolidating(runs("dear", ""), runs("cheap", "ReplicaSet"), runs("daemons", "DaemonSet"), runs("daemons", "Node"))
		_, points := f.mustBegin(newPod("p", uses("mine"))).filter().scores()
		require.EqualValues(t, 100, points["cheap"], "%v", points)
		for _, empty := range []string{"daemons", "empty", "small"} {
			require.Greater(t, points["dear"], points[empty], "%v", points)
		}
		require.Greater(t, points["small"], points["empty"])

		_, points = f.mustBegin(newPod("large", uses("three"))).filter().scores()
		require.EqualValues(t, 100, points["daemons"], "only empty nodes have room: %v", points)
		require.Greater(t, points["daemons"], points["empty"])

		for _, pod := range []*v1.Pod{plain("q"), plain("replica", func(pod *v1.Pod) { pod.OwnerReferences = runs("x", "ReplicaSet").OwnerReferences })} {
			_, points = f.mustBegin(pod).filter().scores()
			require.EqualValues(t, 100, points["cheap"], "%v", points)
			require.Greater(t, points["dear"], max(points["daemons"], points["none"], points["small"]), "%v", points)
			require.Greater(t, points["none"], points["empty"], "without GPUs, and cheaper")
		}
	})
}

// TestOldNodesInUseFirst: of nodes with the same price, those are best that have been in use for long, as they will
// probably be kept.
func TestOldNodesInUseFirst(t *testing.T) {
	t.Parallel()
	objects := plus(costing(4, map[string]string{"old": "2", "new": "2"}), builder.Class("gpu"), gpus("mine", 1).Obj(), gpus("held", 2).Allocated("new", "gpu-0", "gpu-1"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		old, young := runs("old", ""), runs("new", "")
		old.Status.StartTime, young.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-24*time.Hour))), ptr.To(metav1.Now())
		f.consolidating(old, young)
		for _, pod := range []*v1.Pod{newPod("p", uses("mine")), plain("q")} {
			_, points := f.mustBegin(pod).filter().scores()
			require.Greater(t, points["old"], points["new"], pod.Name)
		}
		old.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
		_, points := f.mustBegin(newPod("p", uses("mine"))).filter().scores()
		require.Greater(t, points["old"], points["new"])
		time.Sleep(2 * time.Hour)
		_, points = f.mustBegin(newPod("p", uses("mine"))).filter().scores()
		require.Greater(t, points["new"], points["old"], "both are old now, and this one has devices in use")
	})
}

// TestFuller: of nodes in use that cost the same, pods with devices go where most devices are in use, and pods
// without devices where the least is left.
func TestFuller(t *testing.T) {
	t.Parallel()
	objects := plus(sized("16", 0, "a", "b"), sized("16", 4, "c", "d", "e")...)
	objects = plus(objects, builder.Class("gpu"), gpus("mine", 1).Obj(), gpus("held", 2).Allocated("c", "gpu-0", "gpu-1"))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		second := runs("b", "Job")
		second.Name = "second"
		f.consolidating(runs("a", ""), runs("b", ""), second, runs("c", ""), runs("d", ""))
		_, points := f.mustBegin(newPod("p", uses("mine"))).filter().scores()
		require.EqualValues(t, 100, points["c"], "%v", points)
		require.Greater(t, points["d"], points["e"])
		_, points = f.mustBegin(plain("q")).filter().scores()
		require.EqualValues(t, 100, points["b"], "%v", points)
		require.Greater(t, points["a"], points["e"], "%v", points)
	})
}

// TestNodesInUseAreNamed: of many nodes, PreFilter returns those in use although most are empty.
func TestNodesInUseAreNamed(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(roomyNodes(300, 1), pod), func(t *testing.T, f *fixture) {
		f.running = []*v1.Pod{runs("n277", "")}
		p := newProfileWith(f, &QuartermasterArgs{Strategy: Consolidate}, Name)
		for _, pod := range []*v1.Pod{pod, plain("q")} {
			_, named := p.preFilter(f, pod)
			require.Contains(t, named, "n277", pod.Name)
		}
	})
}

// TestNodesInUseFirstOfManyUnknown: where the cache does not know what devices cost, as on nodes that reach the same
// ones, and only some nodes are valued, these are the ones in use.
func TestNodesInUseFirstOfManyUnknown(t *testing.T) {
	t.Parallel()
	objects := plus([]runtime.Object{builder.Class("gpu"), gpus("mine", 1).Obj()}, builder.Slice("fabric").OnAllNodes().Devices(builder.NumberedDevices("gpu", 4)...).Obj())
	for i := range 40 {
		objects = append(objects, sized("8", 0, fmt.Sprintf("n%02d", i))...)
	}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.consolidating(runs("n31", ""))
		_, points := f.mustBegin(newPod("p", uses("mine"))).filter().scores()
		for name, score := range points {
			require.Equal(t, name == "n31", score == 100, "%v", points)
		}
	})
}
