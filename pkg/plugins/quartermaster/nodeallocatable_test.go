package quartermaster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// cpuNode has four CPUs, devices that stand for one CPU each, and other devices.
func cpuNode(name string, devices, others int) []runtime.Object {
	node := builder.Node(name)
	node.Status.Allocatable = builder.Resources("cpu", "4", "memory", "4Gi", "pods", "100")
	of := builder.NumberedDevices("gpu", others)
	for i := range devices {
		of = append(of, builder.Device(fmt.Sprint("cpu-", i)).Modify(stands(v1.ResourceCPU, mapped("1"))))
	}
	return []runtime.Object{node, builder.NodeSlice(name, of...).Obj(), builder.Class("gpu")}
}

// TestNodeAllocatableAsInTree compares random worlds with the in-tree plugin: the same pods fit on the same nodes, kube-scheduler
// assumes the same, and the pod's status says so. It does not compare reasons. Of devices that are not alike the plugin may choose
// others; then whatever fits in-tree fits, and the in-tree plugin agrees about the devices chosen.
func TestNodeAllocatableAsInTree(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 48))
			mixed := seed%3 == 2
			accounting(t, randomNodes(r, mixed), func(t *testing.T, w *ofNodeWorld) {
				var shared []string
				for i := range 8 {
					w = w.step(r, fmt.Sprint("p", i), &shared, mixed)
				}
			})
		})
	}
}

// step has one more pod scheduled, bound or rolled back.
func (w *ofNodeWorld) step(r *rand.Rand, name string, shared *[]string, mixed bool) *ofNodeWorld {
	claims := []string{name + "-a"}
	w.create(randomClaim(r, claims[0]))
	if len(*shared) > 0 && r.IntN(3) == 0 {
		claims = append(claims, pick(r, *shared...))
	}
	*shared = append(*shared, claims[0])
	pod := randomPod(r, name, claims)
	w.create(pod)
	w.settle()
	if r.IntN(5) == 0 {
		w = newOfNodeWorld(w.crash())
	}
	want, _ := w.judge(w.inTree, pod)
	got, cs := w.judge(w.pl, pod)
	var fitting []string
	for node, wanted := range want {
		if got[node].Code == fwk.Success {
			fitting = append(fitting, node)
		}
		if wanted.Code == fwk.Success {
			require.Equal(w.t, fwk.Success, got[node].Code, "%s: %s", node, got[node].Reason)
		}
		if !mixed {
			require.Equal(w.t, wanted.Code == fwk.Success, got[node].Code == fwk.Success, "%s: %+v\n%+v", node, wanted, got[node])
			require.True(w.t, quantity.DeepEqual(wanted.Takes, got[node].Takes), "%s: %+v\n%+v", node, wanted, got[node])
		}
	}
	if len(fitting) == 0 {
		w.remove(pod)
		w.settle()
		return w
	}
	slices.Sort(fitting)
	node := pick(r, fitting...)
	before := w.infos()
	planned := assumed(cs, pod, node)
	switch at := r.IntN(6); at { // The scheduler ends, and another one goes on.
	case 0, 1:
		if at == 0 {
			require.NoError(w.t, w.pl.Reserve(w.ctx, cs, planned, node).AsError())
		} else {
			w.commit(cs, planned)
			w.settle()
		}
		w = newOfNodeWorld(w.crash())
		again, next := w.judge(w.pl, w.stored(name))
		require.Equal(w.t, fwk.Success, again[node].Code, "%d: %+v", at, again[node])
		if at == 1 || !mixed {
			require.True(w.t, quantity.DeepEqual(again[node].Takes, planned.Status.NodeAllocatableResourceClaimStatuses), "%d: %+v\n%+v", at, again[node].Takes, planned.Status)
		}
		cs, planned = next, assumed(next, w.stored(name), node)
	}
	w.commit(cs, planned)
	require.True(w.t, quantity.DeepEqual(planned.Status.NodeAllocatableResourceClaimStatuses, w.stored(name).Status.NodeAllocatableResourceClaimStatuses))
	if r.IntN(4) == 0 {
		w.pl.Unreserve(w.ctx, cs, planned, node)
		require.Empty(w.t, w.stored(name).Status.NodeAllocatableResourceClaimStatuses)
		w.remove(w.stored(name))
		w.settle()
		return w
	}
	w.settle()
	again, _ := w.judge(w.inTree, w.stored(name))
	require.Equal(w.t, fwk.Success, again[node].Code, again[node].Reason)
	require.True(w.t, quantity.DeepEqual(again[node].Takes, planned.Status.NodeAllocatableResourceClaimStatuses), "%+v\n%+v", again[node].Takes, planned.Status.NodeAllocatableResourceClaimStatuses)
	w.bind(cs, name, node)
	for i, info := range w.infos() {
		if info.Node().Name == node {
			addPod(w.t, before[i], planned)
		}
		require.Equal(w.t, before[i].GetRequested(), info.GetRequested(), "as assumed and as the server has it")
		require.LessOrEqual(w.t, info.GetRequested().GetMilliCPU(), max(info.GetAllocatable().GetMilliCPU(), before[i].GetRequested().GetMilliCPU()))
	}
	return w
}

// crash ends the scheduler, and returns the next one, not started.
func (w *ofNodeWorld) crash() *fixture {
	w.dropInFlight()
	w.stop()
	w.factory.Shutdown()
	return newFixture(w.t, w.server, "default")
}

// TestNodeAllocatable follows pods whose devices stand for CPUs of a node.
func TestNodeAllocatable(t *testing.T) {
	objects := plus(cpuNode("n1", 8, 0), gpus("two", 2).Obj(), gpus("three", 3).Obj())
	accounting(t, objects, func(t *testing.T, w *ofNodeWorld) {
		pod := newPod("p", uses("three"), builder.Container("c", "cpu", "1"))
		w.create(pod)
		w.create(newPod("q", uses("two"), builder.Container("c", "cpu", "1")))
		w.settle()
		got, cs := w.judge(w.pl, pod)
		require.Equal(t, fwk.Success, got["n1"].Code, got["n1"].Reason)
		planned := assumed(cs, pod, "n1")
		w.commit(cs, planned)
		w.bind(cs, "p", "n1")

		// The devices are left, but not the CPUs.
		late := w.stored("q")
		got, _ = w.judge(w.pl, late)
		require.Equal(t, verdict{Code: fwk.Unschedulable, Reason: "Insufficient cpu: 3 asked with the pod's devices; 0 of 4 left on the node"}, got["n1"])
		cause, _ := w.pl.waiting.Get(late.UID).Causes.First()
		require.Equal(t, reasons.NodeFull, cause)
		require.True(t, w.pl.waiting.Get(late.UID).LacksRoom(), "it is woken when a pod leaves the node")

		// Nobody else can use the claim, because its CPUs are charged to one pod.
		sharing := newPod("sharing", uses("three"))
		w.create(sharing)
		got, _ = w.judge(w.pl, sharing)
		require.Contains(t, got["n1"].Reason, "cannot be shared across pods")
	})
}

// TestNodeAllocatableUndone: what a failed attempt has recorded is removed, unless the pod is bound nevertheless.
func TestNodeAllocatableUndone(t *testing.T) {
	for name, test := range map[string]struct {
		bound, refused bool
		faults         []fault
	}{
		"rolled back":                   {},
		"bound":                         {bound: true},
		"the server refuses the status": {refused: true, faults: []fault{{on: "patch/status", err: apierrors.NewBadRequest("no")}}},
		"the server refuses the claim":  {refused: true, faults: []fault{{on: "update/status", err: apierrors.NewBadRequest("no")}}},
	} {
		t.Run(name, func(t *testing.T) {
			accounting(t, plus(cpuNode("n1", 8, 0), gpus("two", 2).Obj()), func(t *testing.T, w *ofNodeWorld) {
				w.create(newPod("p", uses("two")))
				w.settle()
				_, cs := w.judge(w.pl, w.stored("p"))
				planned := assumed(cs, w.stored("p"), "n1")
				w.fail(test.faults...)
				if !test.refused {
					w.commit(cs, planned)
					require.Len(t, w.stored("p").Status.NodeAllocatableResourceClaimStatuses, 1)
				} else {
					require.NoError(t, w.pl.Reserve(w.ctx, cs, planned, "n1").AsError())
					require.Error(t, w.pl.PreBind(w.ctx, cs, planned, "n1").AsError())
				}
				if test.bound {
					pod := w.stored("p")
					pod.Spec.NodeName = "n1"
					w.replace(pod)
				}
				w.pl.Unreserve(w.ctx, cs, planned, "n1")
				require.Equal(t, test.bound, len(w.stored("p").Status.NodeAllocatableResourceClaimStatuses) > 0)
				require.Equal(t, test.bound, w.claim("two").Status.Allocation != nil)
			})
		})
	}
}

// TestNodeAllocatableLeft: a process was killed after it had recorded what devices would take. The next attempt records what its own
// plan takes, and one that fits nowhere with what was left removes that.
func TestNodeAllocatableLeft(t *testing.T) {
	left := []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "one", Mapping: []v1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: amount("3")}}}}
	for name, test := range map[string]struct {
		devices, fits bool
	}{
		"takes other CPUs": {devices: true, fits: true},
		"takes a GPU":      {fits: true},
		"fits nowhere":     {},
	} {
		t.Run(name, func(t *testing.T) {
			devices := 0
			if test.devices {
				devices = 1
			}
			claim := gpus("one", 1).Obj()
			if test.devices {
				claim.Spec.Devices.Requests[0].Exactly.Count = 2
			}
			if !test.fits {
				claim.Spec.Devices.Requests[0].Exactly.Count = 9
			}
			accounting(t, plus(cpuNode("n1", devices, 1), claim), func(t *testing.T, w *ofNodeWorld) {
				pod := newPod("p", uses("one"))
				pod.Status.NodeAllocatableResourceClaimStatuses = left
				w.create(pod)
				w.settle()
				got, cs := w.judge(w.pl, pod)
				require.Equal(t, test.fits, got["n1"].Code == fwk.Success, got["n1"].Reason)
				if !test.fits {
					_, status := w.pl.PostFilter(w.ctx, cs, pod, nil)
					require.Contains(t, status.Message(), "was removed from the pod's status")
					require.Empty(t, w.stored("p").Status.NodeAllocatableResourceClaimStatuses)
					return
				}
				planned := assumed(cs, pod, "n1")
				w.commit(cs, planned)
				require.True(t, quantity.DeepEqual(planned.Status.NodeAllocatableResourceClaimStatuses, w.stored("p").Status.NodeAllocatableResourceClaimStatuses))
				if test.devices {
					require.Equal(t, "1", w.stored("p").Status.NodeAllocatableResourceClaimStatuses[0].Mapping[0].Quantity.String())
				}
				w.pl.Unreserve(w.ctx, cs, planned, "n1")
			})
		})
	}
}

// TestNodeAllocatableInReserve: kube-scheduler must have assumed what the plan takes.
func TestNodeAllocatableInReserve(t *testing.T) {
	accounting(t, plus(cpuNode("n1", 1, 1), gpus("two", 2).Obj()), func(t *testing.T, w *ofNodeWorld) {
		pod := newPod("p", uses("two"))
		w.create(pod)
		w.settle()
		_, cs := w.judge(w.pl, pod)
		planned := assumed(cs, pod, "n1")
		unaware := planned.DeepCopy()
		unaware.Status.NodeAllocatableResourceClaimStatuses = nil
		require.Contains(t, w.pl.Reserve(w.ctx, cs, unaware, "n1").Message(), "has not assumed")
		w.pl.Unreserve(w.ctx, cs, unaware, "n1")

		// Another scheduler binds the pod: what that one has recorded counts.
		_, cs = w.judge(w.pl, pod)
		require.NoError(t, w.pl.Reserve(w.ctx, cs, planned, "n1").AsError())
		bound := w.stored("p")
		bound.Spec.NodeName = "n2"
		w.replace(bound)
		require.Contains(t, w.pl.PreBind(w.ctx, cs, planned, "n1").Message(), "it is bound or gone")
		require.Empty(t, w.stored("p").Status.NodeAllocatableResourceClaimStatuses)
		w.pl.Unreserve(w.ctx, cs, planned, "n1")
	})
}

// TestNodeAllocatableRefused: nothing accounts for such devices on older servers.
func TestNodeAllocatableRefused(t *testing.T) {
	objects := plus(cpuNode("n1", 1, 1), gpus("one", 1).Obj(), gpus("two", 2).Obj(), with(gpus("allocated", 1).Allocated("n1", "cpu-0"), onNode("n1")))
	accounting(t, objects, func(t *testing.T, w *ofNodeWorld) {
		w.pl.accountant = nil
		w.support(new(classicdra.Mode))
		for name, why := range map[string]string{
			"allocated": "claim default/allocated: device gpu.example.com/n1/cpu-0 stands for or needs resources of the node (cpu)",
			"two":       "1 stands for or needs resources of the node that this scheduler cannot account for (cpu)",
		} {
			pod := newPod(name, uses(name))
			w.create(pod)
			w.settle()
			got, _ := w.judge(w.pl, pod)
			require.Contains(t, got["n1"].Reason, why)
			require.NotContains(t, got["n1"].Reason, ",")
		}
		w.changeClaim("allocated", deallocate)
		w.settle()
		require.Empty(t, w.schedule(newPod("one", uses("one"))).phase)
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(w.claim("one")))
	})
}

// TestNodeAllocatableForExtendedResources: the pod's status has no place for what their devices take, so they get others.
func TestNodeAllocatableForExtendedResources(t *testing.T) {
	for name, test := range map[string]struct {
		pod *v1.Pod
		why string
	}{
		"others are there": {pod: gpuPod("p", "1")},
		"too few others":   {pod: gpuPod("p", "2"), why: "2 asked; 1 free; 3 stand for or need resources of the node that this scheduler cannot account for (cpu)"},
		"beside a claim":   {pod: gpuPod("p", "1", uses("two")), why: "these can be accounted for only if the pod asks for the devices in a ResourceClaim"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(cpuNode("n1", 3, 1)[:2:2], backingClass("gpu", gpuResource), gpus("two", 2).Obj())
			accounting(t, objects, func(t *testing.T, w *ofNodeWorld) {
				w.create(test.pod)
				w.settle()
				got := w.schedule(test.pod)
				if test.why == "" {
					require.Empty(t, got.phase, "%v", got)
					require.Empty(t, w.stored("p").Status.NodeAllocatableResourceClaimStatuses)
					return
				}
				require.Contains(t, got.reasons["n1"], test.why)
				require.NotContains(t, got.reasons["n1"], ",")
			})
		})
	}
}

// TestNodeAllocatablePreempts: pods of lower priority have the devices, or the CPUs that these need.
func TestNodeAllocatablePreempts(t *testing.T) {
	cpus := func(cpu string) func(*v1.Pod) { return builder.Container("c", "cpu", cpu) }
	takes := func(name, cpus string) *builder.DeviceBuilder {
		return builder.Device(name).Modify(stands(v1.ResourceCPU, mapped(cpus)))
	}
	for name, test := range map[string]struct {
		more    []runtime.Object
		devices []*builder.DeviceBuilder // instead of eight that stand for a CPU each
		pod     *v1.Pod
		code    fwk.Code
		reason  string
		victims []string
	}{
		"CPUs": {
			more: []runtime.Object{low("idle", "n1", cpus("0")), low("busy", "n1", cpus("2"), priority(5)), low("same", "n1", cpus("1"), priority(10))},
			pod:  high("p", uses("two")), code: fwk.Unschedulable, reason: "Insufficient cpu: 2 asked with the pod's devices; 1 of 4 left on the node", victims: []string{"busy"},
		},
		"CPUs of another's devices": {
			more: []runtime.Object{held(gpus("taken", 3).Obj(), "n1", []string{"cpu-5", "cpu-6", "cpu-7"}, "busy"),
				low("busy", "n1", uses("taken"), func(pod *v1.Pod) {
					pod.Status.NodeAllocatableResourceClaimStatuses = []v1.NodeAllocatableResourceClaimStatus{
						{ResourceClaimName: "taken", Mapping: []v1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: amount("3")}}}}
				})},
			pod: high("p", uses("two")), code: fwk.Unschedulable, reason: "Insufficient cpu: 2 asked with the pod's devices; 1 of 4 left on the node", victims: []string{"busy"},
		},
		"never": {
			more: []runtime.Object{low("busy", "n1", cpus("2"))}, pod: high("p", uses("two"), cpus("3")),
			code: fwk.UnschedulableAndUnresolvable, reason: "Insufficient cpu: 5 asked with the pod's devices; 2 of 4 left on the node",
		},
		"of higher priority": {
			more: []runtime.Object{low("busy", "n1", cpus("3"), priority(20))}, pod: high("p", uses("two")),
			code: fwk.Unschedulable, reason: "1 of 4 left on the node",
		},
		"devices that take less": {
			devices: []*builder.DeviceBuilder{takes("small-0", "1"), takes("small-1", "1"), takes("big-0", "3"), takes("big-1", "3")},
			more:    []runtime.Object{held(gpus("taken", 2).Obj(), "n1", []string{"small-0", "small-1"}, "busy"), low("busy", "n1", uses("taken"))},
			pod:     high("p", uses("two")), code: fwk.Unschedulable, reason: "Insufficient cpu: 6 asked with the pod's devices; 4 of 4 left on the node", victims: []string{"busy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := cpuNode("n1", 8, 0)
			if test.devices != nil {
				objects[1] = builder.NodeSlice("n1", test.devices...).Obj()
			}
			accounting(t, plus(objects, append(test.more, gpus("two", 2).Obj(), test.pod)...), func(t *testing.T, w *ofNodeWorld) {
				profile := withDefaultPreemption(w.fixture)
				served := w.pl.state.served()
				served[len(served)-1].waiting.Begin(test.pod).LookEverywhere() // Otherwise PostFilter first has the other nodes tried.
				p := preemptIn(t, w.fixture, profile, test.pod)
				require.Equal(t, test.code, p.codes["n1"], p.reasons["n1"])
				require.Contains(t, p.reasons["n1"], test.reason)
				require.NotContains(t, p.reasons["n1"], ",")
				require.Equal(t, test.victims, p.victims, "%v", p.status)
			})
		})
	}
}

// TestNodeAllocatableWithoutGate: as by the in-tree plugin, such devices are treated like any other.
func TestNodeAllocatableWithoutGate(t *testing.T) {
	t.Parallel()
	objects := plus(cpuNode("n1", 1, 1), gpus("two", 2).Obj(), with(gpus("allocated", 1).Allocated("n1", "cpu-0"), onNode("n1")))
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		require.Nil(t, f.pl.accountant)
		require.Empty(t, f.schedule(newPod("sharing", uses("allocated"))).phase)
		f.changeClaim("allocated", deallocate)
		f.settle()
		require.Empty(t, f.schedule(newPod("both", uses("two"))).phase)
	})
}
