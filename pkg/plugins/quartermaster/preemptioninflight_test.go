package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// assumedOn is a pod as the scheduler assumes it to be on a node.
func assumedOn(pod *v1.Pod, node string) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

// TestPreemptionOfPodsThatAreNotBoundYet: a pod of lower priority was reserved by the plugin. If it waits for
// permission, it is turned back; else it is deleted.
func TestPreemptionOfPodsThatAreNotBoundYet(t *testing.T) {
	t.Parallel()
	network := []runtime.Object{builder.Class("gpu"), builder.Node("n1"), builder.Node("n2"),
		builder.Slice("net").OnAllNodes().Devices(builder.NumberedDevices("gpu", 1)...).Obj()}
	tests := map[string]struct {
		objects []runtime.Object
		on      string
		edits   []func(*v1.Pod)
		waits   bool
		stored  bool
		victims []string
		code    fwk.Code
	}{
		"its claim is stored":             {objects: gpuNodes(1, "n1"), on: "n1", stored: true, victims: []string{"early"}, code: fwk.Unschedulable},
		"its claim is stored, waits":      {objects: gpuNodes(1, "n1"), on: "n1", stored: true, waits: true, code: fwk.Unschedulable},
		"waits for permission":            {objects: gpuNodes(1, "n1"), on: "n1", waits: true, code: fwk.Unschedulable},
		"does not":                        {objects: gpuNodes(1, "n1"), on: "n1", victims: []string{"early"}, code: fwk.Unschedulable},
		"on another node, waits":          {objects: network, on: "n2", waits: true, code: fwk.Unschedulable},
		"on another node, does not":       {objects: network, on: "n2", victims: []string{"early"}, code: fwk.Unschedulable},
		"of the same priority":            {objects: gpuNodes(1, "n1"), on: "n1", edits: []func(*v1.Pod){priority(10)}, code: fwk.UnschedulableAndUnresolvable},
		"of the same priority, elsewhere": {objects: network, on: "n2", edits: []func(*v1.Pod){priority(10)}, code: fwk.UnschedulableAndUnresolvable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			early := newPod("early", append([]func(*v1.Pod){priority(0), uses("a")}, test.edits...)...)
			pod := high("p", uses("c"), onlyOn("n1"))
			inCluster(t, plus(test.objects, early, pod, gpus("a", 1).Obj(), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
				a := f.mustBegin(early).filter()
				require.NoError(t, a.reserve(test.on).AsError())
				if test.stored {
					require.NoError(t, a.preBind(test.on).AsError())
					f.settle()
					require.Empty(t, f.inFlight())
				}
				profile := withDefaultPreemption(f, assumedOn(early, test.on))
				if test.waits {
					profile.AddWaitingPod(assumedOn(early, test.on), map[string]time.Duration{"a plugin": time.Minute})
				}
				p := preemptIn(t, f, profile, pod)
				require.Equal(t, test.code, p.codes["n1"], p.reasons["n1"])
				require.Equal(t, test.victims, p.victims)
				if test.code == fwk.UnschedulableAndUnresolvable {
					require.Empty(t, p.node)
					require.Nil(t, profile.GetWaitingPod(early.UID))
				} else {
					require.Equal(t, "n1", p.node, "%v", p.status)
				}
				if test.waits {
					require.Contains(t, profile.WaitOnPermit(f.ctx, early).Message(), "preempted")
				}
				a.unreserve(test.on)
				f.settle()
			})
		})
	}
}

// TestPreemptionOfGroupClaims: what a PodGroup has is free when all of its pods on nodes are gone.
func TestPreemptionOfGroupClaims(t *testing.T) {
	t.Parallel()
	objects := gpuNodes(1, "n1")
	shared := with(gpus("s", 1).Allocated("n1", "gpu-0"), reservedForGroup)
	tests := map[string]struct {
		members []runtime.Object
		victims []string
		code    fwk.Code
	}{
		"two pods":            {members: []runtime.Object{low("m1", "n1", member, uses("s")), low("m2", "n1", member, uses("s"))}, victims: []string{"m1", "m2"}, code: fwk.Unschedulable},
		"another one waits":   {members: []runtime.Object{low("m1", "n1", member, uses("s")), newPod("m2", member, uses("s"))}, victims: []string{"m1"}, code: fwk.Unschedulable},
		"nobody is on a node": {members: []runtime.Object{newPod("m1", priority(0), member, uses("s"))}, code: fwk.UnschedulableAndUnresolvable},
		"one of the same priority": {members: []runtime.Object{low("m1", "n1", member, uses("s")), low("m2", "n1", member, uses("s"), priority(10))},
			code: fwk.UnschedulableAndUnresolvable},
		"one has no use for it": {members: []runtime.Object{low("m1", "n1", member, uses("s")), low("m2", "n1", member)}, victims: []string{"m1"}, code: fwk.Unschedulable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := high("p", uses("c"))
			inCluster(t, together(objects, shared, test.members, gpus("c", 1).Obj(), pod), func(t *testing.T, f *fixture) {
				p := preempt(t, f, pod)
				require.Equal(t, test.code, p.codes["n1"], p.reasons["n1"])
				require.Equal(t, test.victims, p.victims, "%v", p.status)
			})
		})
	}
}

// TestVictimEndsDuringAttempt: a victim ends between Filter, which saw its device in use, and PostFilter. Nobody else is evicted, whether its
// claim is deallocated as well or not yet.
func TestVictimEndsDuringAttempt(t *testing.T) {
	t.Parallel()
	for name, deallocated := range map[string]bool{"its claim is allocated": false, "its claim is deallocated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ending := low("a", "n1", uses("a"), func(pod *v1.Pod) {
				pod.DeletionTimestamp, pod.Finalizers = ptr.To(metav1.Now()), []string{"example.com/slow"}
			})
			claim := held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a")
			pod := high("p", uses("c"))
			inCluster(t, plus(gpuNodes(2, "n1"), claim, held(gpus("b", 1).Obj(), "n1", []string{"gpu-1"}, "b"), ending, low("b", "n1", uses("b")),
				gpus("c", 1).Obj(), pod), func(t *testing.T, f *fixture) {
				ending.DeletionTimestamp = ptr.To(metav1.Now())
				f.arrive(ending)
				profile := withDefaultPreemption(f)
				first := preemptIn(t, f, profile, pod)
				require.Equal(t, "n1", first.node, "%v", first.status)
				require.Empty(t, first.victims, "the ending one is enough")
				second := preemptAfter(t, f, profile, pod, func() {
					f.leave(ending)
					if deallocated {
						_, err := f.client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(f.ctx, with(f.claim("a"), deallocate), metav1.UpdateOptions{})
						require.NoError(t, err)
					}
					f.settle()
				})
				require.Contains(t, second.status.Message(), "no pods are evicted")
				require.NotContains(t, second.victims, "b")
			})
		})
	}
}
