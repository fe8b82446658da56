package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// long skips a test in make test, which leaves what takes more than 20 s to make test-all.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("plays months of a cluster with several policies; make test-all runs it")
	}
}

// Whatever the policy, what is free is what the running pods leave, nobody waits who fits, and jobs that leave make room.
func TestDeparturesKeepAccounts(t *testing.T) {
	t.Parallel()
	long(t)
	for _, gangs := range []bool{false, true} {
		nodes := newNodes(trace.Nodes(64))
		jobs := stream(nodes, 0.9, gangs, 42)
		for _, p := range placers {
			c := newCluster(nodes, p.make(jobs), nil)
			f := c.play(jobs)
			require.Len(t, f.waits, len(jobs))
			for i := range c.hosts {
				had := host{node: nodes[i], free: nodes[i].gpus}
				for _, r := range c.hosts[i].running {
					require.Greater(t, r.ends, c.now)
					had.change(&r.job.task, r.gpus, -1)
				}
				require.Equal(t, had.free, c.hosts[i].free, p.name)
				require.Equal(t, []int64{had.milliCPU, had.memory}, []int64{c.hosts[i].milliCPU, c.hosts[i].memory}, p.name)
				require.GreaterOrEqual(t, min(had.milliCPU, had.memory, int64(had.gpus[0])), int64(0), p.name)
			}
			for _, a := range c.waiting {
				room := 0
				for i := range c.hosts {
					room += c.hosts[i].room(&a.task)
				}
				require.Less(t, room, a.pods, p.name)
			}
			require.InDelta(t, 75, f.held, 20, p.name)
		}
	}
}

// promises remembers when jobs were to begin.
type promises struct {
	reservations
	of   map[*arrived]int64
	late int
}

func (p *promises) hold(c *cluster, a *arrived) *hold {
	h := p.reservations.hold(c, a)
	if h != nil {
		if before, known := p.of[a]; known && h.begins > before {
			p.late++
		}
		p.of[a] = h.begins
	}
	return h
}

// With known times no job begins later than when room was first held for it, and the largest wait less than with nothing held.
func TestHoldsAreKept(t *testing.T) {
	t.Parallel()
	long(t)
	p := &promises{reservations: reservations{most: 1, ends: knownEnd, lasts: knownTime}, of: map[*arrived]int64{}}
	f := simulate(64, 0.9, true, 42, bestFits, p)
	require.NotEmpty(t, p.of)
	require.Zero(t, p.late)
	for a, begins := range p.of {
		if a.began >= 0 {
			require.LessOrEqual(t, a.began, begins)
		}
	}
	without := simulate(64, 0.9, true, 42, bestFits, nil)
	require.Less(t, wait(largest(f.waits, 10), 0.99), wait(largest(without.waits, 10), 0.99))
}

// Gangs are tasks of one shape that arrived within ten minutes, and no task is lost.
func TestGangs(t *testing.T) {
	t.Parallel()
	runs := trace.Runs()
	require.Len(t, runs, 8151)
	require.Len(t, jobsOf(runs, false), len(runs))
	pods, largest := 0, 0
	for _, j := range jobsOf(runs, true) {
		pods, largest = pods+j.pods, max(largest, j.pods)
		require.True(t, j.pods == 1 || j.GPUs > 0)
	}
	require.Equal(t, len(runs), pods)
	require.Equal(t, 12, largest)
}

// The load is what was asked for.
func TestStream(t *testing.T) {
	t.Parallel()
	nodes := newNodes(trace.Nodes(16))
	asked, capacity := 0.0, 0
	for _, j := range stream(nodes, 0.5, true, 42) {
		asked += float64(j.asked()) * float64(j.lasts)
	}
	for i := range nodes {
		capacity += nodes[i].left()
	}
	require.InDelta(t, 0.5, asked/window/float64(capacity), 0.01)
}

// More nodes are empty with strategy consolidate than with the others, and hardly fewer GPUs are on them than with any.
func TestConsolidate(t *testing.T) {
	t.Parallel()
	long(t)
	got := map[string]figures{}
	for _, p := range placers[:6] {
		got[p.name] = simulate(16, 0.3, false, 42, p.make, nil)
	}
	for other, f := range got {
		if other != "consolidate" {
			require.Greater(t, got["consolidate"].empty, f.empty, other)
			require.Greater(t, got["consolidate"].emptyGPUs, f.emptyGPUs-1, other)
		}
	}
}
