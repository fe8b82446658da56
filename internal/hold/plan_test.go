package hold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// randomWaiting returns holders that want 1 to 8 devices per pod.
func randomWaiting(c *testCluster, random *rand.Rand, priorities int32) (all []*Waiting) {
	for i := range 1 + random.IntN(4) {
		pods := 1
		if random.IntN(3) == 0 {
			pods = 2 + random.IntN(3)
		}
		since := epoch.Add(-time.Duration(random.IntN(3)) * time.Minute) // Some are equal.
		all = append(all, c.waiting(fmt.Sprintf("w%d", i), random.Int32N(priorities), since, pods, 1+random.IntN(8)))
	}
	return all
}

// TestSoonest: with known ends, the first holder's devices begin when brute force says that they can.
func TestSoonest(t *testing.T) {
	t.Parallel()
	held := 0
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		c.fill(random, 1)
		pods, size := 1+random.IntN(3), 1+random.IntN(6)
		holds := c.world(noLimits, random).Plan([]*Waiting{c.waiting("w", 0, epoch, pods, size)})
		want, possible := c.soonest(pods, size)
		require.Equal(t, possible, len(holds) == 1)
		if possible {
			held++
			require.Equal(t, want, holds[0].Begin)
			require.Len(t, holds[0].All(), pods)
		}
	})
	require.Positive(t, held)
}

// soonest tries each moment at which a pod ends: how many pods of a size fit then?
func (c *testCluster) soonest(pods, size int) (time.Time, bool) {
	moments := []time.Time{c.now}
	for _, j := range c.jobs {
		moments = append(moments, endOf(j.Pod, 0, c.now).At)
	}
	slices.SortFunc(moments, time.Time.Compare)
	for _, moment := range moments {
		fit := 0
		for node, all := range c.sizes {
			used := 0
			for _, j := range c.jobs {
				if j.node == node && endOf(j.Pod, 0, c.now).At.After(moment) {
					used += j.size
				}
			}
			fit += (all - used) / size
		}
		if fit >= pods {
			return moment, true
		}
	}
	return time.Time{}, false
}

// TestAgree: the order in which two processes learn of the same objects does not matter.
func TestAgree(t *testing.T) {
	t.Parallel()
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		c.fill(random, 0.5)
		waiting := append(randomWaiting(c, random, 2), c.booking("b", 1, c.now.Add(time.Hour), c.now.Add(2*time.Hour), 1+random.IntN(2), 1+random.IntN(4)))
		one := told(c.world(noLimits, random).Plan(slices.Clone(waiting)))
		random.Shuffle(len(waiting), func(i, k int) { waiting[i], waiting[k] = waiting[k], waiting[i] })
		require.Equal(t, one, told(c.world(noLimits, random).Plan(waiting)))
	})
}

// TestBounds: no device is held twice, no more is held than the holders want, and no limit is exceeded. With room for more, a
// holder without a hold would not fit in an empty cluster, or nothing is left beside the others.
func TestBounds(t *testing.T) {
	t.Parallel()
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		c.fill(random, 0.5)
		limits := Limits{MaxHolds: random.IntN(4), Percent: 25 * random.IntN(5), PercentOfNamespace: 25 * random.IntN(5)}
		w, all := c.world(limits, random), 0
		of := make(map[string]int)
		waiting := randomWaiting(c, random, 2)
		for i, one := range waiting {
			one.Namespace = fmt.Sprint(i % 2)
		}
		seen := make(map[string]bool)
		holds := w.Plan(waiting)
		for _, h := range holds {
			for _, use := range h.All() {
				for result := range ledger.Used(use.Allocation) {
					all++
					of[h.Namespace]++
					name := result.Pool + "/" + result.Device
					require.False(t, seen[name], "%s is held twice", name)
					seen[name] = true
				}
			}
		}
		require.LessOrEqual(t, len(holds), limits.MaxHolds)
		require.LessOrEqual(t, 100*all, limits.Percent*w.Devices("gpu"))
		for _, n := range of {
			require.LessOrEqual(t, 100*n, limits.PercentOfNamespace*w.Devices("gpu"))
		}
	})
}

// TestTriedStay: a hold of somebody who is just being tried stays as it is, and counts for the limits. Others are planned beside it.
func TestTriedStay(t *testing.T) {
	t.Parallel()
	stayed := 0
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		c.fill(random, 0.5)
		first := c.world(noLimits, random).Plan(randomWaiting(c, random, 2))
		if len(first) < 2 {
			return
		}
		stayed++
		tried := first[random.IntN(len(first))]
		var waiting []*Waiting
		for _, h := range first {
			if h != tried {
				waiting = append(waiting, h.Waiting)
			}
		}
		limits := Limits{MaxHolds: 1 + random.IntN(3), Percent: 100, PercentOfNamespace: 100}
		w := c.world(limits, random)
		w.Tried = []Tried{{Hold: tried}}
		holds := w.Plan(slices.Clone(waiting))
		require.Same(t, tried, holds[0])
		require.LessOrEqual(t, len(holds), limits.MaxHolds)
		seen := make(map[string]bool)
		for _, use := range allOf(holds) {
			for result := range ledger.Used(use.Allocation) {
				name := result.Pool + "/" + result.Device
				require.False(t, seen[name], "%s is held twice", name)
				seen[name] = true
			}
		}
		w.Limits = Limits{MaxHolds: 100, Percent: 100 * tried.devices["gpu"] / c.Devices("gpu"), PercentOfNamespace: 100}
		require.Len(t, w.Plan(slices.Clone(waiting)), 1, "no device is left for others")
		w.Limits, w.Tried[0].Reserved = noLimits, make(map[types.UID]bool)
		for _, pod := range tried.Pods {
			w.Tried[0].Reserved[pod.UID] = true
		}
		alone := c.world(noLimits, random).Plan(slices.Clone(waiting))
		require.Equal(t, told(alone), told(w.Plan(waiting)[1:]), "what is reserved is in the usage already")
	})
	require.Positive(t, stayed)
}

// TestImpossible: what is too large for an empty cluster holds nothing, and keeps nobody else from holding something.
func TestImpossible(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4, 4)
	c.fill(rand.New(rand.NewPCG(1, 1)), 1)
	w := c.world(Limits{MaxHolds: 1, Percent: 100, PercentOfNamespace: 100}, rand.New(rand.NewPCG(2, 2)))
	holds := w.Plan([]*Waiting{c.waiting("large", 5, epoch, 1, 5), c.waiting("group", 5, epoch, 3, 4), c.waiting("fits", 0, epoch, 1, 4)})
	require.Len(t, holds, 1)
	require.Equal(t, "ns/fits", holds[0].Name)
}

// TestManyKinds: a group whose pods are all of different kinds does not take the time of others.
func TestManyKinds(t *testing.T) {
	t.Parallel()
	c := newTestCluster(60, 60, 60, 60, 60, 60, 60, 60)
	group := c.waiting("group", 5, epoch, 400, 1)
	for i, pod := range group.Pods {
		pod.Kind = fmt.Sprint(i)
	}
	alike := c.waiting("alike", 4, epoch, 400, 1)
	w := c.world(noLimits, rand.New(rand.NewPCG(2, 2)))
	holds := w.Plan([]*Waiting{alike, group})
	require.Equal(t, Refusal{CannotFit, cutShort}, group.Refusal)
	require.Len(t, holds, 1)
	require.Equal(t, "ns/alike", holds[0].Name)
	require.LessOrEqual(t, w.looks, 8*looksOfPlan+2*leastLooks)
}

// TestPoolOfAllNodes: a pool in reach of all nodes that a group takes nothing of does not have all nodes looked at again after each pod.
func TestPoolOfAllNodes(t *testing.T) {
	t.Parallel()
	const nodes = 100
	c := newTestCluster(slices.Repeat([]int{1}, nodes)...)
	fabric := &inventory.NodePool{ID: inventory.PoolID{Driver: "fabric", Name: "all"}}
	for i := range c.nodes {
		c.nodes[i].Pools = append(c.nodes[i].Pools, fabric)
	}
	w := c.world(noLimits, rand.New(rand.NewPCG(2, 2)))
	require.Len(t, w.Plan([]*Waiting{c.waiting("group", 5, epoch, nodes, 1)}), 1)
	require.Less(t, w.looks, 3*nodes)
}

// TestStaysWhereDevicesGetFree: a hold for pods of unknown ends stays on the node where most devices are free already, and
// prefers pods that end by themselves.
func TestStaysWhereDevicesGetFree(t *testing.T) {
	t.Parallel()
	c := newTestCluster(2, 2, 2)
	for node, jobs := range map[string][]string{"node-0": {"a", "b"}, "node-1": {"c", "d"}, "node-2": {"e", "f"}} {
		for i, name := range jobs {
			j := newJob(name, 1, time.Hour, 0)
			c.put(j, node, fmt.Sprintf("gpu-%02d", i))
			if node == "node-0" {
				j.Spec.RestartPolicy = v1.RestartPolicyAlways
			}
			if node == "node-2" {
				j.Status.StartTime.Time = epoch.Add(-time.Minute)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	plan := func() *Hold {
		holds := c.world(noLimits, random).Plan([]*Waiting{c.waiting("w", 0, c.now, 1, 2)})
		require.Len(t, holds, 1)
		return holds[0]
	}
	require.Equal(t, []string{"node-2"}, plan().NodeNames(), "its pods have run for longer")
	require.True(t, plan().Begin.IsZero())
	delete(c.jobs, "d")
	require.Equal(t, []string{"node-1"}, plan().NodeNames(), "only one pod has to go")
	delete(c.jobs, "c")
	require.True(t, plan().Ready)
	c.jobs["c"] = newJob("c", 2, time.Hour, 0)
	c.put(c.jobs["c"], "node-1", "gpu-00", "gpu-01")
	require.Equal(t, []string{"node-1"}, plan().NodeNames(), "one pod with both devices")
}

// TestWaitsForNoOtherHolder: a stream of small pods that end only when somebody deletes them fills some nodes, and a pod that has got
// the devices that were held for it has another node. The next hold is not on that node, although only one pod would have to go there.
func TestWaitsForNoOtherHolder(t *testing.T) {
	t.Parallel()
	c := newTestCluster(2, 2)
	serves := func(name, node string, began time.Time, devices ...string) {
		j := newJob(name, len(devices), time.Hour, 0)
		j.Spec.RestartPolicy = v1.RestartPolicyAlways
		c.put(j, node, devices...)
		j.Status.StartTime.Time = began
	}
	serves("large", "node-0", epoch.Add(-time.Minute), "gpu-00", "gpu-01")
	serves("small-0", "node-1", epoch.Add(-time.Second), "gpu-00")
	serves("small-1", "node-1", epoch, "gpu-01")
	random := rand.New(rand.NewPCG(1, 1))
	holds := c.world(noLimits, random).Plan([]*Waiting{c.waiting("w", 0, c.now, 1, 2)})
	require.Len(t, holds, 1)
	require.Equal(t, []string{"node-1"}, holds[0].NodeNames())
	delete(c.jobs, "small-0")
	require.Equal(t, []string{"node-1"}, c.world(noLimits, random).Plan([]*Waiting{c.waiting("w", 0, c.now, 1, 2)})[0].NodeNames())
}

// TestServing: a hold does not rely for long on pods that end only when somebody deletes them.
func TestServing(t *testing.T) {
	t.Parallel()
	c := newTestCluster(1)
	j := newJob("service", 1, time.Hour, 0)
	j.Spec.RestartPolicy = v1.RestartPolicyAlways
	c.put(j, "node-0", "gpu-00")
	random := rand.New(rand.NewPCG(1, 1))
	plan := func() []*Hold {
		return c.world(noLimits, random).Plan([]*Waiting{c.waiting("w", 0, epoch, 1, 1)})
	}
	require.Len(t, plan(), 1)
	c.now = epoch.Add(servingFor + time.Second)
	require.Empty(t, plan())
	j.Spec.RestartPolicy = v1.RestartPolicyNever
	require.Len(t, plan(), 1)
}

// TestDomain: all pods of a group are held in one domain, the one that is free the soonest.
func TestDomain(t *testing.T) {
	t.Parallel()
	c := newTestCluster(1, 1, 1, 1)
	for i, minutes := range []int{1, 9, 5, 5} {
		runs := time.Duration(minutes) * time.Minute
		c.put(newJob(fmt.Sprintf("old-%d", i), 1, runs, runs), fmt.Sprintf("node-%d", i), "gpu-00")
	}
	group := c.waiting("w", 0, epoch, 2, 1)
	random := rand.New(rand.NewPCG(1, 1))
	require.Equal(t, []string{"node-0", "node-2"}, c.world(noLimits, random).Plan([]*Waiting{group})[0].NodeNames())
	group.Domain = func(node *v1.Node) (string, bool) { return node.Labels["rack"], true }
	require.Equal(t, []string{"node-2", "node-3"}, c.world(noLimits, random).Plan([]*Waiting{group})[0].NodeNames())
}

// TestEvicts: devices of pods that can be evicted for the holder count as free.
func TestEvicts(t *testing.T) {
	t.Parallel()
	c := newTestCluster(1, 1)
	c.put(newJob("same", 1, time.Minute, time.Minute), "node-0", "gpu-00")
	lower := newJob("lower", 1, time.Hour, time.Hour)
	lower.priority = -1
	c.put(lower, "node-1", "gpu-00")
	random := rand.New(rand.NewPCG(1, 1))
	one := c.waiting("w", 0, epoch, 1, 1)
	require.Equal(t, []string{"node-0"}, c.world(noLimits, random).Plan([]*Waiting{one})[0].NodeNames())
	one.Evicts = true
	require.Equal(t, []string{"node-1"}, c.world(noLimits, random).Plan([]*Waiting{one})[0].NodeNames())
}

// TestRoom: a node without room for the pod holds nothing for it until the pods with that room are gone.
func TestRoom(t *testing.T) {
	t.Parallel()
	c := newTestCluster(2)
	c.nodes[0].Room.MilliCPU = 100
	c.put(newJob("old", 1, time.Minute, time.Minute), "node-0", "gpu-00")
	random := rand.New(rand.NewPCG(1, 1))
	one := c.waiting("w", 0, epoch, 1, 1)
	one.Pods[0].Takes.MilliCPU = 1000
	plan := func(freed int64) []*Hold {
		c.takes = freed
		return c.world(noLimits, random).Plan([]*Waiting{one})
	}
	require.Empty(t, plan(899))
	require.Equal(t, epoch.Add(time.Minute), plan(900)[0].Begin)
}
