package quartermaster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// bubbleBegins is when the clock of tests begins.
var bubbleBegins = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// waitsFor makes a pod one that has been known not to fit for some time when the test begins.
func waitsFor(d time.Duration) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
			LastTransitionTime: metav1.NewTime(bubbleBegins.Add(-d)),
		})
	}
}

// deadline limits how long a pod runs. It ends at once then.
func deadline(d time.Duration) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.ActiveDeadlineSeconds, pod.Spec.TerminationGracePeriodSeconds = new(int64), new(int64)
		*pod.Spec.ActiveDeadlineSeconds = int64(d / time.Second)
	}
}

// holder returns a pod that has run on a device of a node for an hour, and its claim.
func holder(name, node, device string, edits ...func(*v1.Pod)) []runtime.Object {
	pod := newPod(name, append(edits, uses(name), runsOn(node), func(pod *v1.Pod) {
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Status.StartTime = &metav1.Time{Time: bubbleBegins.Add(-time.Hour)}
	})...)
	return []runtime.Object{pod, with(gpus(name, 1).Obj(), allocate(node, device), reservedFor(name), onNode(node))}
}

// besideLarge returns two nodes with two devices each, three of which are in use, and a pod that has waited for both devices of
// a node for some time. Half of n1 is free.
func besideLarge(waited time.Duration, edits ...func(*v1.Pod)) (objects []runtime.Object, large *v1.Pod) {
	objects = gpuNodes(2, "n1", "n2")
	objects = append(objects, holder("a", "n1", "gpu-0", edits...)...)
	objects = append(objects, holder("b", "n2", "gpu-0")...)
	objects = append(objects, holder("c", "n2", "gpu-1")...)
	large = newPod("large", of("default"), uses("large"), waitsFor(waited))
	return append(objects, large, gpus("large", 2).Obj(), gpus("s", 1).Obj(), gpus("t", 1).Obj()), large
}

// gone deletes a pod and the allocation of its claim.
func (f *fixture) gone(pod string) {
	f.remove(f.pod(pod))
	f.remove(f.claim(pod))
	f.settle()
}

// inHolding runs a test with a plugin that holds devices after five minutes.
func inHolding(t *testing.T, objects []runtime.Object, test func(*testing.T, *fixture)) {
	t.Helper()
	inHoldingWith(t, objects, func(args *QuartermasterArgs) { args.HoldAfter.Duration = 5 * time.Minute }, test)
}

// inHoldingWith runs a test with a plugin whose arguments differ from the default ones.
func inHoldingWith(t *testing.T, objects []runtime.Object, change func(*QuartermasterArgs), test func(*testing.T, *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, startServer(t, objects...), "default")
		if change(f.pl.args); f.pl.args.Holds() {
			f.pl.state.beginHolds(f.ctx)
		}
		f.start()
		test(t, f)
	})
}

// TestHoldWhileEvaluating: after a restart, a small pod does not get what is held for a pod whose expressions have to be evaluated first,
// and the devices stay held while drivers publish others that have to be evaluated.
func TestHoldWhileEvaluating(t *testing.T) {
	t.Parallel()
	objects, _ := besideLarge(5 * time.Minute)
	for i := range objects {
		if claim, is := objects[i].(*resourceapi.ResourceClaim); is && claim.Name == "large" {
			objects[i] = builder.Claim("large", builder.Request("gpu", "gpu").Count(2).Where(`device.driver != "none"`)).Obj()
		}
	}
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		f.pl.state.NodeCache.AtOnce, f.pl.attemptBudget = 0, 0 // Nothing is evaluated at once.
		small := newPod("small", uses("s"))
		require.Equal(t, "held for pod default/large", f.schedule(small).reasons["n1"])
		for range 3 {
			f.create(builder.NodeSlice(fmt.Sprintf("n3-%d", time.Now().UnixNano()), builder.Device("gpu-0")).Obj())
			f.pl.state.planHolds(f.ctx)
			require.Equal(t, "held for pod default/large", f.schedule(small).reasons["n1"])
			time.Sleep(time.Second)
		}
	})
}

// TestHold: the free device of the node where the large pod will be is not given to a pod of the same priority, and the large pod
// gets both as soon as the other is free.
func TestHold(t *testing.T) {
	t.Parallel()
	objects, large := besideLarge(5 * time.Minute)
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		small := newPod("small", uses("s"))
		result := f.schedule(small)
		require.Equal(t, "Filter", result.phase)
		require.Equal(t, "held for pod default/large", result.reasons["n1"])
		require.Contains(t, result.reasons["n2"], "0 free")
		require.Equal(t, []string{"Normal DevicesHeld 2 devices on n1 are held for pod default/large which has waited since 23:55 UTC; 1 of them is in use"}, f.eventTexts())
		f.gone("a")
		require.Equal(t, "Filter", f.schedule(small).phase)
		result = f.schedule(large)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n1", result.node)
	})
}

// TestHoldWhileOthersAreBound: a plan does not give up a node because some claim there is reserved for a pod whose binding is not
// known yet. Such a pod ends as others do.
func TestHoldWhileOthersAreBound(t *testing.T) {
	t.Parallel()
	for _, unbound := range []string{"a", "b"} {
		objects, _ := besideLarge(5 * time.Minute)
		for _, object := range objects {
			switch object := object.(type) {
			case *v1.Pod:
				if object.Name == "a" || object.Name == unbound {
					object.Spec.NodeName = ""
				}
			case *v1.Node:
				object.Status.Allocatable = builder.Resources("pods", "110")
			}
		}
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			result := f.schedule(newPod("small", uses("s")))
			require.Equal(t, "held for pod default/large", result.reasons["n1"], "%s: %v", unbound, result)
		})
	}
}

// TestHoldNotYet: nothing is held for a pod that has not waited for long enough, or if holds are off.
func TestHoldNotYet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		waited, after time.Duration
		classes       map[string]metav1.Duration
		held          bool
	}{
		"not long enough":          {waited: 5*time.Minute - time.Second, after: 5 * time.Minute},
		"off":                      {waited: time.Hour},
		"off for others":           {waited: time.Hour, classes: map[string]metav1.Duration{"important": {Duration: time.Second}}},
		"only for some":            {waited: time.Hour, classes: map[string]metav1.Duration{"": {Duration: time.Second}}, held: true},
		"longer for its own class": {waited: time.Hour, after: time.Second, classes: map[string]metav1.Duration{"": {Duration: 2 * time.Hour}}},
	} {
		objects, _ := besideLarge(test.waited)
		change := func(args *QuartermasterArgs) {
			args.HoldAfter.Duration, args.HoldAfterByPriorityClass = test.after, test.classes
		}
		inHoldingWith(t, objects, change, func(t *testing.T, f *fixture) {
			result := f.schedule(newPod("small", uses("s")))
			require.Equal(t, test.held, result.phase != "", "%s: %v", name, result.status)
		})
	}
}

// TestHoldTurnedOff: a pod for which a former process held devices no longer says so.
func TestHoldTurnedOff(t *testing.T) {
	t.Parallel()
	objects, large := besideLarge(time.Hour)
	large.Status.Conditions = append(large.Status.Conditions, v1.PodCondition{Type: dra.DevicesHeld, Status: v1.ConditionTrue, Message: "before"})
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, startServer(t, objects...), "default")
		f.pl.args.HoldAfter.Duration = 0
		f.pl.state.beginHolds(f.ctx)
		f.start()
		require.Equal(t, "n1", f.schedule(newPod("small", uses("s"))).node)
		time.Sleep(time.Minute)
		f.settle()
		stored, err := f.client.CoreV1().Pods(large.Namespace).Get(f.ctx, large.Name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Nil(t, dra.HeldFor(stored), "%v", stored.Status.Conditions)
	})
}

// TestHoldBinds: pods of higher priority are not bound by a hold, nor are those that are gone before it begins, or that the holder
// can evict.
func TestHoldBinds(t *testing.T) {
	t.Parallel()
	never := func(pod *v1.Pod) {
		policy := v1.PreemptNever
		pod.Spec.PreemptionPolicy = &policy
	}
	for name, test := range map[string]struct {
		edits  []func(*v1.Pod)
		large  []func(*v1.Pod)
		reason string
	}{
		"higher":               {edits: []func(*v1.Pod){priority(1)}},
		"lower":                {edits: []func(*v1.Pod){priority(-1)}},
		"lower, no preemption": {edits: []func(*v1.Pod){priority(-1)}, large: []func(*v1.Pod){never}, reason: "held for pod default/large until about 00:30 UTC"},
		"gone before":          {edits: []func(*v1.Pod){deadline(29 * time.Minute)}},
		"gone after":           {edits: []func(*v1.Pod){deadline(30 * time.Minute)}, reason: "held for pod default/large until about 00:30 UTC"},
	} {
		objects, large := besideLarge(time.Hour, deadline(90*time.Minute))
		for _, edit := range test.large {
			edit(large)
		}
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			result := f.schedule(newPod("small", append(test.edits, uses("s"))...))
			require.Equal(t, test.reason, result.reasons["n1"], name)
			require.Equal(t, test.reason != "", result.phase != "", "%s: %v", name, result.status)
		})
	}
}

// TestHoldEndsWakes: a pod that waits beside a hold is woken when the hold ends.
func TestHoldEndsWakes(t *testing.T) {
	t.Parallel()
	objects, _ := besideLarge(time.Hour)
	small := newPod("small", uses("s"))
	inHolding(t, append(objects, small), func(t *testing.T, f *fixture) {
		f.sleep(small)
		f.gone("large")
		require.Equal(t, []string{"default/small"}, f.names())
		require.True(t, f.fits(small))
	})
}

// TestHoldMovesWakes: a hold moves to a node that is known to be free soon, and wakes those who may have its former devices.
func TestHoldMovesWakes(t *testing.T) {
	t.Parallel()
	objects, large := besideLarge(time.Hour)
	small := newPod("small", uses("s"))
	inHolding(t, append(objects, small), func(t *testing.T, f *fixture) {
		f.sleep(small)
		for _, name := range []string{"b", "c"} {
			pod := f.pod(name).DeepCopy()
			deadline(90 * time.Minute)(pod)
			f.replace(pod)
		}
		time.Sleep(2 * holdPause)
		f.settle()
		require.Contains(t, f.names(), "default/small")
		result := f.schedule(small)
		require.Equal(t, "n1", result.node, "%v", result.status)
		f.gone("b")
		f.gone("c")
		require.Equal(t, "n2", f.schedule(large).node)
	})
}

// TestHoldWhileTried: what is held stays held during an attempt to bind its holder's pod, whose outcome is not known yet.
func TestHoldWhileTried(t *testing.T) {
	t.Parallel()
	objects, large := besideLarge(5 * time.Minute)
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		require.Equal(t, "Filter", f.schedule(newPod("small", uses("s"))).phase)
		f.gone("a")
		a := f.mustBegin(large).filter()
		require.True(t, a.reserve("n1").IsSuccess())
		time.Sleep(3 * holdPause)
		f.settle()
		a.unreserve("n1")
		require.Equal(t, "held for pod default/large", f.schedule(newPod("small", uses("s"))).reasons["n1"])
		require.Equal(t, "n1", f.schedule(large).node)
	})
}

// TestHoldWhileUnplanned: devices stay held for a moment while it is not known what their pod needs, and are free after that.
func TestHoldWhileUnplanned(t *testing.T) {
	t.Parallel()
	objects, _ := besideLarge(time.Hour)
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		small := newPod("small", uses("s"))
		require.Equal(t, "held for pod default/large", f.schedule(small).reasons["n1"])
		f.remove(f.claim("large")) // It may be made again.
		time.Sleep(4 * time.Second)
		f.settle()
		require.Equal(t, "held for pod default/large", f.schedule(small).reasons["n1"])
		time.Sleep(3 * time.Second)
		f.settle()
		require.Equal(t, "n1", f.schedule(small).node)
	})
}

// TestHoldWhileBinding: a pod that waited for long and is just being bound ends as long after now as its deadline says. A hold that moved to its
// node for a moment would leave its former devices to others.
func TestHoldWhileBinding(t *testing.T) {
	t.Parallel()
	objects := gpuNodes(2, "n1", "n2")
	for _, object := range objects {
		if node, is := object.(*v1.Node); is {
			node.Status.Allocatable = builder.Resources("pods", "110")
		}
	}
	objects = append(objects, holder("a", "n1", "gpu-0", deadline(150*time.Minute))...)
	objects = append(objects, newPod("large", of("default"), uses("large"), waitsFor(time.Hour)), gpus("large", 2).Obj(), gpus("s", 1).Obj())
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		long := newPod("long", uses("s"), priority(1), deadline(100*time.Minute), func(pod *v1.Pod) {
			pod.CreationTimestamp.Time = bubbleBegins.Add(-time.Hour)
		})
		f.create(long)
		f.settle()
		a := f.mustBegin(long).filter()
		require.True(t, a.reserve("n2").IsSuccess())
		f.pl.state.planHolds(f.ctx)
		require.Equal(t, map[string][]string{"default/large": {"n1"}}, f.holdsFor())
		a.unreserve("n2")
	})
}

// TestHoldAfterRestart: the first pod that is tried after a restart does not get what is held, and holds beside a scheduler
// that takes part in the protocol are the same.
func TestHoldAfterRestart(t *testing.T) {
	t.Parallel()
	objects, _ := besideLarge(time.Hour)
	inHolding(t, objects, func(t *testing.T, f *fixture) {
		f = f.restart(func(f *fixture) {
			f.pl.args.HoldAfter.Duration = 5 * time.Minute
			f.pl.state.beginHolds(f.ctx)
		})
		require.Equal(t, "held for pod default/large", f.schedule(newPod("small", uses("s"))).reasons["n1"])
	})
	for _, takesPart := range []bool{true, false} {
		objects, large := besideLarge(time.Hour)
		large.Spec.SchedulerName = "theirs"
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			f.pl.state.competitors.Learn("theirs", takesPart)
			require.Equal(t, takesPart, f.schedule(newPod("small", uses("s"))).phase != "")
		})
	}
}

// TestHoldAvoids: what the holder's pod could never use, or what others decide, holds nothing.
func TestHoldAvoids(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fixture, *v1.Pod){
		"no such node": func(_ *fixture, pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"no": "node"} },
		"host port": func(_ *fixture, pod *v1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "port", Ports: []v1.ContainerPort{{HostPort: 1}}})
		},
		"too large a part": func(f *fixture, _ *v1.Pod) { *f.pl.args.MaxHeldPercent = 49 },
		"namespace":        func(f *fixture, _ *v1.Pod) { *f.pl.args.MaxHeldPercentPerNamespace = 49 },
		"no holds":         func(f *fixture, _ *v1.Pod) { *f.pl.args.MaxHolds = 0 },
		"gated":            func(_ *fixture, pod *v1.Pod) { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} },
		"other scheduler":  func(_ *fixture, pod *v1.Pod) { pod.Spec.SchedulerName = "unknown" },
		"volume missing": func(_ *fixture, pod *v1.Pod) {
			source := &v1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: source}})
		},
		"claim missing": func(_ *fixture, pod *v1.Pod) { uses("missing")(pod) },
	} {
		objects, large := besideLarge(time.Hour)
		change(&fixture{pl: &Quartermaster{args: dummyArgs()}}, large)
		inHolding(t, objects, func(t *testing.T, f *fixture) {
			change(f, newPod("ignored"))
			require.Empty(t, f.schedule(newPod("small", uses("s"))).phase, name)
		})
	}
}

// dummyArgs takes changes of arguments that nobody reads.
func dummyArgs() *QuartermasterArgs {
	args := &QuartermasterArgs{}
	args.MaxHolds, args.MaxHeldPercent, args.MaxHeldPercentPerNamespace = new(int32), new(int32), new(int32)
	return args
}
