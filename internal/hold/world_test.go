package hold

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

const testDriver = "gpu.example.com"

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// job is a pod of a random cluster. It takes size devices of one node.
type job struct {
	*v1.Pod
	size     int
	priority int32
	// runs is how long it runs in fact, which is at most its deadline if it has one.
	runs time.Duration
	// node, devices and began say where it runs and since when.
	node    string
	devices []string
	began   time.Time
}

// testCluster is a cluster of nodes with devices that all look the same. Its pods hold one claim each, with their UID.
type testCluster struct {
	sizes map[string]int
	nodes []Node
	jobs  map[types.UID]*job
	now   time.Time
	// takes is the CPU of each job in thousandths.
	takes int64
}

func newTestCluster(sizes ...int) *testCluster {
	c := &testCluster{sizes: make(map[string]int), jobs: make(map[types.UID]*job), now: epoch}
	for i, size := range sizes {
		name := fmt.Sprintf("node-%d", i)
		c.sizes[name] = size
		c.nodes = append(c.nodes, Node{
			Node:  &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": fmt.Sprint(i / 2)}}},
			Pools: []*inventory.NodePool{{ID: inventory.PoolID{Driver: testDriver, Name: name}}}, Room: noderesources.Resources{Pods: 100},
		})
	}
	return c
}

// newJob returns a pod that is not in the cluster yet. deadline is 0 for a pod without one.
func newJob(name string, size int, runs, deadline time.Duration) *job {
	j := &job{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)}}, size: size, runs: runs}
	j.Spec.RestartPolicy, j.Spec.TerminationGracePeriodSeconds = v1.RestartPolicyNever, new(int64)
	if deadline > 0 {
		seconds := int64(deadline / time.Second)
		j.Spec.ActiveDeadlineSeconds = &seconds
	}
	return j
}

// free returns the devices of a node that a view says are free.
func (c *testCluster) free(node string, usage ledger.View) (free []string) {
	pool := usage.Pool(inventory.PoolID{Driver: testDriver, Name: node})
	for i := range c.sizes[node] {
		if name := fmt.Sprintf("gpu-%02d", i); !pool.Uses(name) {
			free = append(free, name)
		}
	}
	return free
}

func allocationOf(node string, devices []string) *resourceapi.AllocationResult {
	result := &resourceapi.AllocationResult{}
	for _, device := range devices {
		result.Devices.Results = append(result.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: testDriver, Pool: node, Device: device,
		})
	}
	return result
}

func useOf(uid types.UID, node string, devices []string) ledger.Use {
	return ledger.Use{Claim: ledger.ClaimRef{Namespace: "ns", Name: string(uid), UID: uid}, Allocation: allocationOf(node, devices)}
}

// uses returns what runs, in an order that does not matter.
func (c *testCluster) uses() (uses []ledger.Use) {
	for uid, j := range c.jobs {
		uses = append(uses, useOf(uid, j.node, j.devices))
	}
	return uses
}

func (c *testCluster) usage(held ...ledger.Use) ledger.View {
	return ledger.WhatIf(ledger.New(), nil, append(c.uses(), held...))
}

// start places a job on the first node where a usage leaves enough, and reports whether there is one.
func (c *testCluster) start(j *job, usage ledger.View) bool {
	for _, node := range c.nodes {
		if free := c.free(node.Name, usage); len(free) >= j.size {
			c.put(j, node.Name, free[:j.size]...)
			return true
		}
	}
	return false
}

func (c *testCluster) put(j *job, node string, devices ...string) {
	j.node, j.devices, j.began = node, devices, c.now
	j.Spec.NodeName, j.Status.StartTime = node, &metav1.Time{Time: c.now}
	c.jobs[j.UID] = j
}

// pass lets time pass, and removes the jobs that have ended.
func (c *testCluster) pass(d time.Duration) {
	c.now = c.now.Add(d)
	for uid, j := range c.jobs {
		if !j.began.Add(j.runs).After(c.now) {
			delete(c.jobs, uid)
		}
	}
}

// world returns what a plan depends on, in an order of its own.
func (c *testCluster) world(limits Limits, random *rand.Rand) *World {
	w := &World{Now: c.now, Limits: limits}
	for _, node := range c.nodes {
		var claims []types.UID
		for uid, j := range c.jobs {
			if j.node == node.Name {
				claims = append(claims, uid)
			}
		}
		random.Shuffle(len(claims), func(i, k int) { claims[i], claims[k] = claims[k], claims[i] })
		node.Claims = make([][]types.UID, len(node.Pools))
		node.Claims[0] = claims
		w.Nodes = append(w.Nodes, node)
	}
	w.Cluster = c
	return w
}

// Usage implements Cluster.
func (c *testCluster) Usage(*Waiting) ledger.View { return c.usage() }

// Holding implements Cluster.
func (c *testCluster) Holding(uid types.UID) *Holding {
	j := c.jobs[uid]
	holding := &Holding{
		Use: useOf(uid, j.node, j.devices), End: endOf(j.Pod, 0, c.now), Highest: j.priority,
		Pods: []Runner{{Pod: uid, Node: j.node, Takes: noderesources.Resources{Pods: 1, MilliCPU: c.takes}}},
	}
	if holding.End.IsKnown() {
		holding.Gone = holding.End.At
	}
	return holding
}

// ClassOf implements Cluster.
func (c *testCluster) ClassOf(ledger.ClaimRef, string) string { return "gpu" }

// Devices implements Cluster.
func (c *testCluster) Devices(string) (n int) {
	for _, size := range c.sizes {
		n += size
	}
	return n
}

// testPod is a pod that needs some devices of one node.
type testPod struct {
	cluster *testCluster
	uid     types.UID
	size    int
}

// Admits implements Requirements.
func (p testPod) Admits(*v1.Node) bool { return true }

// Solve implements Requirements.
func (p testPod) Solve(node *v1.Node, usage ledger.View) []ledger.Use {
	free := p.cluster.free(node.Name, usage)
	if len(free) < p.size {
		return nil
	}
	return []ledger.Use{useOf(p.uid, node.Name, free[:p.size])}
}

// Wants implements Requirements.
func (p testPod) Wants(*inventory.NodePool, ...string) bool { return true }

// waiting returns a holder with some pods of a size.
func (c *testCluster) waiting(name string, priority int32, since time.Time, pods, size int) *Waiting {
	w := &Waiting{Namespace: "ns", Name: "ns/" + name, Group: pods > 1, Priority: priority, Since: since, Due: since}
	for i := range pods {
		uid := types.UID(fmt.Sprintf("%s-%d", name, i))
		w.Pods = append(w.Pods, &Pod{
			UID: uid, Kind: fmt.Sprint(size), Takes: noderesources.Resources{Pods: 1}, Requirements: testPod{c, uid, size},
		})
	}
	return w
}

var noLimits = Limits{MaxHolds: 100, Percent: 100, PercentOfNamespace: 100}

// fill fills the cluster with jobs. known is the part of them with a deadline.
func (c *testCluster) fill(random *rand.Rand, known float64) {
	for i := range 3 * len(c.nodes) {
		runs := time.Duration(1+random.IntN(40)) * time.Minute
		deadline := time.Duration(0)
		if random.Float64() < known {
			deadline = runs + time.Duration(random.IntN(2)*random.IntN(30))*time.Minute
		}
		c.start(newJob(fmt.Sprintf("old-%02d", i), 1+random.IntN(3), runs, deadline), c.usage())
		c.now = c.now.Add(time.Second)
	}
}

func randomCluster(random *rand.Rand) *testCluster {
	sizes := make([]int, 1+random.IntN(4))
	for i := range sizes {
		sizes[i] = 1 + random.IntN(8)
	}
	return newTestCluster(sizes...)
}

// told returns holds as a text.
func told(holds []*Hold) (lines []string) {
	for _, h := range holds {
		for _, pod := range h.Waiting.Pods {
			for _, use := range h.Uses[pod.UID] {
				for result := range ledger.Used(use.Allocation) {
					lines = append(lines, fmt.Sprintf("%s %s %s/%s %s", h.Name, pod.UID, result.Pool, result.Device, h.Begin.Format(time.TimeOnly)))
				}
			}
		}
	}
	return lines
}

// forRandom runs a check for many seeds.
func forRandom(t *testing.T, check func(t *testing.T, random *rand.Rand)) {
	t.Helper()
	for seed := range uint64(300) {
		check(t, rand.New(rand.NewPCG(seed, 45)))
		if t.Failed() {
			require.FailNow(t, "a random world failed", "seed %d", seed)
		}
	}
}
