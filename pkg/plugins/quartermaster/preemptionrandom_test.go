package quartermaster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestPreemptionRandom compares preemption in small random clusters with an exhaustive search.
func TestPreemptionRandom(t *testing.T) {
	t.Parallel()
	const parts, worlds = 4, 400
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			var seen bruteTally
			for i := range worlds {
				w := randomWorld(rand.New(rand.NewPCG(uint64(part), uint64(i))))
				inCluster(t, w.objects(), func(t *testing.T, f *fixture) {
					defer func() {
						if t.Failed() {
							t.Logf("world %d/%d:\n%v", part, i, w)
						}
					}()
					w.compare(t, f, &seen)
				})
			}
			t.Logf("%+v", seen)
			for what, n := range map[string]int{"that fit": seen.fit, "in which no eviction helps": seen.hopeless, "with preemption": seen.preempted,
				"with victims elsewhere": seen.elsewhere, "with several victims": seen.several, "with a budget that is violated": seen.violating} {
				require.Greater(t, n, worlds/100, "too few worlds %s", what)
			}
		})
	}
}

// bruteTally counts the results of worlds.
type bruteTally struct {
	fit, hopeless, preempted, elsewhere, several, violating int
}

// compare tries the pod.
func (w *bruteWorld) compare(t *testing.T, f *fixture, seen *bruteTally) {
	profile, pod := withDefaultPreemption(f), w.preemptor()
	f.settle()
	before := f.podNames()
	state := framework.NewCycleState()
	_, status, _ := profile.RunPreFilterPlugins(f.ctx, state, pod)
	require.True(t, status.IsSuccess(), "%v", status)
	statuses, anyFits, anyWould := framework.NewDefaultNodeToStatus(), false, false
	for _, node := range w.nodes {
		info, err := profile.SnapshotSharedLister().NodeInfos().Get(node)
		require.NoError(t, err)
		status := profile.RunFilterPluginsWithNominatedPods(f.ctx, state, pod, info)
		want := fwk.UnschedulableAndUnresolvable
		switch {
		case w.fits(node, nil):
			want, anyFits = fwk.Success, true
		case w.fits(node, w.below()):
			want, anyWould = fwk.Unschedulable, true
		}
		require.Equal(t, want, status.Code(), "node %s: %v", node, status)
		statuses.Set(node, status)
	}
	if anyFits {
		seen.fit++
		return
	}
	result, status := profile.RunPostFilterPlugins(f.ctx, state, pod, statuses)
	f.settleEvictions()
	deleted := slices.DeleteFunc(before, func(name string) bool { return slices.Contains(f.podNames(), name) })
	if !anyWould {
		seen.hopeless++
		require.False(t, status.IsSuccess(), "%v", status)
		require.Empty(t, deleted)
		return
	}
	require.True(t, status.IsSuccess(), "%v", status)
	nomination := f.pl.state.nominations.Of(pod.UID)
	require.NotNil(t, nomination, "devices are kept for the pod")
	chosen := new(bruteVictims)
	for _, victim := range nomination.Victims {
		chosen.pods = append(chosen.pods, w.pods[slices.IndexFunc(w.pods, func(p *brutePod) bool { return p.name == victim.Name })])
	}
	w.judge(t, result.NominatedNodeName, chosen, seen)
	chosen.pods = slices.DeleteFunc(chosen.pods, func(pod *brutePod) bool { return pod.leaves })
	require.ElementsMatch(t, chosen.names(), deleted, "who leaves anyway is not deleted again")
}

// judge checks the victims for a pod that is nominated for a node.
func (w *bruteWorld) judge(t *testing.T, node string, chosen *bruteVictims, seen *bruteTally) {
	for _, pod := range chosen.pods {
		require.Less(t, pod.priority, int32(brutePriority), "pod %s was evicted", pod.name)
		if pod.node != node {
			seen.elsewhere++
		}
	}
	require.True(t, w.fits(node, chosen.pods), "on node %s without %v", node, chosen.names())
	smaller := &bruteVictims{pods: w.smaller(node, chosen.pods)}
	require.Nil(t, smaller.pods, "%v would be enough of %v for node %s", smaller.names(), chosen.names(), node)
	chosen.violating = w.violations(chosen.pods)
	if w.countsBudgets() {
		// Upstream counts pods against a budget that it does not evict then. We look at fewer, and may do better.
		require.LessOrEqual(t, slices.Compare(chosen.score(), w.best()), 0, "%v on node %s", chosen.names(), node)
	} else {
		require.Equal(t, w.victims(node).names(), chosen.names(), "for node %s", node)
		require.Equal(t, w.best(), chosen.score(), "node %s was chosen", node)
	}
	seen.preempted++
	if len(chosen.pods) > 1 {
		seen.several++
	}
	if chosen.violating > 0 {
		seen.violating++
	}
}

// countsBudgets reports whether it matters how many pods of an app are looked at.
func (w *bruteWorld) countsBudgets() bool {
	for _, allowed := range w.budgets {
		if allowed > 0 {
			return true
		}
	}
	return false
}

// preemptor is the pod that comes.
func (w *bruteWorld) preemptor() *v1.Pod {
	pod := newPod("preemptor", priority(brutePriority))
	for _, claim := range w.wants {
		uses(claim.name)(pod)
	}
	if w.own != nil {
		uses(w.own.name)(pod)
	}
	return pod
}

// objects are the world as the API server has it.
func (w *bruteWorld) objects() []runtime.Object {
	objects := []runtime.Object{builder.Class("gpu"), w.preemptor()}
	for _, node := range w.nodes {
		objects = append(objects, builder.Node(node, labelsOf(node)...))
	}
	for i := range w.pools {
		objects = append(objects, w.pools[i].slices()...)
	}
	for _, pod := range w.pods {
		object := low(pod.name, pod.node, priority(pod.priority), startedAt(pod.started), labeled(pod.app))
		if pod.leaves {
			leaves(object)
		}
		for _, claim := range w.claims {
			if slices.Contains(claim.users, pod) {
				uses(claim.name)(object)
			}
		}
		objects = append(objects, object)
	}
	for _, claim := range w.claims {
		var users []string
		for _, user := range claim.users {
			users = append(users, user.name)
		}
		objects = append(objects, held(claim.object(), claim.pool.name, claim.devices, users...))
	}
	for _, claim := range w.wants {
		objects = append(objects, claim.object())
	}
	for app, allowed := range w.budgets {
		objects = append(objects, budget(app, int32(allowed)))
	}
	return objects
}

// labelsOf puts the first two nodes into a rack.
func labelsOf(node string) []string {
	if node == "n0" || node == "n1" {
		return []string{"rack", "a"}
	}
	return nil
}

func (p *brutePool) slices() []runtime.Object {
	parts := []*builder.SliceBuilder{builder.Slice(p.name + "-devices")}
	for _, device := range p.devices {
		b := builder.Device(device.name).Attr("kind", device.kind)
		if p.counter > 0 {
			b.Consumes("set", "units", fmt.Sprint(device.draws))
		}
		parts[0].Devices(b)
	}
	if p.counter > 0 {
		parts = append(parts, builder.Slice(p.name+"-counters").Counters("set", "units", fmt.Sprint(p.counter)))
	}
	var objects []runtime.Object
	for _, part := range parts {
		part.InPool(p.name, 1, int64(len(parts)))
		switch len(p.nodes) {
		case 0:
			part.OnAllNodes()
		case 1:
			part.OnNode(p.nodes[0])
		default:
			part.OnLabeled("rack", "a")
		}
		objects = append(objects, part.Obj())
	}
	return objects
}

func (c *bruteClaim) object() *resourceapi.ResourceClaim {
	request := builder.Request("gpu", "gpu").Count(int64(c.count))
	if c.count == 0 {
		request.All()
	}
	if c.kind != "" {
		request.Where(fmt.Sprintf("device.attributes[%q].kind == %q", builder.Driver, c.kind))
	}
	return builder.Claim(c.name, request).Obj()
}
