package facts

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// model is a cluster for which all rearrangements can be tried: each node has so many GPUs, the first half on NUMA node
// 0, and 8 CPUs.
type model struct {
	nodes, gpus int
	pods        []modelPod
	asked       demand
}

// demand is a number of GPUs, with match all on the same NUMA node, and CPUs.
type demand struct {
	count, cpu int
	match      bool
}

type modelPod struct {
	demand
	node int
	gpus []int
	// fixed pods are not moved.
	fixed bool
}

const modelCPUs = 8

func randomModel(r *rand.Rand) *model {
	m := &model{nodes: 1 + r.IntN(3), gpus: 2 * (1 + r.IntN(3))}
	for node := range m.nodes {
		free := r.Perm(m.gpus)
		cpus := modelCPUs
		for range r.IntN(6) {
			pod := modelPod{demand: demand{count: min(r.IntN(3), 1+r.IntN(2)), cpu: 1 + r.IntN(2)}, node: node, fixed: r.IntN(8) == 0}
			if pod.count > len(free) || pod.cpu > cpus {
				continue
			}
			pod.gpus, free, cpus = free[:pod.count], free[pod.count:], cpus-pod.cpu
			pod.match = pod.count > 0 && m.sameNUMA(pod.gpus) && r.IntN(2) == 0
			m.pods = append(m.pods, pod)
		}
	}
	m.asked = demand{count: max(1+r.IntN(m.gpus), 1+r.IntN(m.gpus)), cpu: 1 + r.IntN(3), match: r.IntN(3) == 0}
	if r.IntN(3) == 0 { // All of a node takes the most moves.
		m.asked = demand{count: m.gpus, cpu: 1}
	}
	return m
}

func (m *model) numa(gpu int) int { return gpu * 2 / m.gpus }

func (m *model) sameNUMA(gpus []int) bool {
	for _, gpu := range gpus {
		if m.numa(gpu) != m.numa(gpus[0]) {
			return false
		}
	}
	return true
}

// fewest tries all sets of pods of one node with up to most of them, and all nodes for each: it returns the least
// number that is enough, -1 if there is none.
func (m *model) fewest(most int) int {
	for count := 0; count <= most; count++ {
		for node := range m.nodes {
			for set := range 1 << len(m.pods) {
				if m.isCandidate(set, count, node) && m.canMove(set, node, nil) {
					return count
				}
			}
		}
	}
	return -1
}

func (m *model) isCandidate(set, count, node int) bool {
	for i := range m.pods {
		if set&(1<<i) == 0 {
			continue
		}
		if count--; m.pods[i].node != node || m.pods[i].fixed {
			return false
		}
	}
	return count == 0
}

// canMove gives each pod of the set a node in all ways.
func (m *model) canMove(set, node int, given []int) bool {
	var moved []int
	for i := range m.pods {
		if set&(1<<i) != 0 {
			moved = append(moved, i)
		}
	}
	if len(given) < len(moved) {
		for to := range m.nodes {
			if m.canMove(set, node, append(given[:len(given):len(given)], to)) {
				return true
			}
		}
		return false
	}
	for n := range m.nodes {
		var all []demand
		if n == node {
			all = append(all, m.asked)
		}
		for i, to := range given {
			if to == n {
				all = append(all, m.pods[moved[i]].demand)
			}
		}
		if len(all) > 0 && !m.haveRoom(n, set, all) {
			return false
		}
	}
	return true
}

// haveRoom reports whether a node has room for demands once the pods of a set are gone.
func (m *model) haveRoom(node, gone int, all []demand) bool {
	free := 1<<m.gpus - 1
	cpus := modelCPUs
	for i := range m.pods {
		if m.pods[i].node != node || gone&(1<<i) != 0 {
			continue
		}
		cpus -= m.pods[i].cpu
		for _, gpu := range m.pods[i].gpus {
			free &^= 1 << gpu
		}
	}
	for _, d := range all {
		cpus -= d.cpu
	}
	return cpus >= 0 && m.devicesFor(free, all)
}

func (m *model) devicesFor(free int, all []demand) bool {
	if len(all) == 0 {
		return true
	}
	for taken := range 1 << m.gpus {
		var gpus []int
		for gpu := range m.gpus {
			if taken&(1<<gpu) != 0 {
				gpus = append(gpus, gpu)
			}
		}
		if taken&^free != 0 || len(gpus) != all[0].count || all[0].match && !m.sameNUMA(gpus) {
			continue
		}
		if m.devicesFor(free&^taken, all[1:]) {
			return true
		}
	}
	return false
}

func (m *model) objects() (*whatif.Objects, *v1.Pod) {
	o := numaWorld(m.nodes, m.gpus)
	request := func(name string, d demand) *builder.ClaimBuilder {
		c := builder.Claim(name, builder.Request("gpu", builder.Driver).Count(int64(d.count)))
		if d.match {
			c.Match("gpu.example.com/numa")
		}
		return c
	}
	for i, pod := range m.pods {
		name, node := fmt.Sprintf("pod-%d", i), fmt.Sprintf("node-%d", pod.node)
		if pod.count == 0 {
			o.Pods = append(o.Pods, builder.Pod(name, func(p *v1.Pod) { p.Spec.NodeName = node }, builder.Container("main")))
		} else {
			var devices []string
			for _, gpu := range pod.gpus {
				devices = append(devices, fmt.Sprintf("gpu-%d", gpu))
			}
			holding(o, name, node, request(name, pod.demand), devices...)
		}
		made := o.Pods[len(o.Pods)-1]
		made.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", fmt.Sprint(pod.cpu))
		if pod.fixed {
			made.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		}
	}
	pod := wanting(o, "asked", request("asked", m.asked))
	pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", fmt.Sprint(m.asked.cpu))
	return o, pod
}

// TestRoomRandom compares with trying all rearrangements of small clusters, which needs no search: the number of moves, and
// the moves themselves.
func TestRoomRandom(t *testing.T) {
	t.Parallel()
	rounds := 5000
	if testing.Short() {
		rounds = 200
	}
	seen := make(map[int]int)
	for seed := range uint64(rounds) {
		m := randomModel(rand.New(rand.NewPCG(seed, 7)))
		want := m.fewest(MovesAtMost)
		o, pod := m.objects()
		advice, err := RoomFor(t.Context(), whatif.New(*o, whatif.Options{}), pod)
		require.NoError(t, err, "seed %d", seed)
		require.True(t, advice.Fewest, "seed %d: nothing bounds so small a search", seed)
		got := -1
		if advice.Fits || advice.Node != "" {
			got = len(advice.Moves)
			require.True(t, m.allows(advice), "seed %d: %+v\n%+v", seed, advice, m)
		}
		require.Equal(t, want, got, "seed %d: %+v\n%+v", seed, advice, m)
		seen[want]++
	}
	if testing.Short() {
		return
	}
	for moves := -1; moves <= MovesAtMost; moves++ {
		require.Positive(t, seen[moves], "cases with %d moves; all: %v", moves, seen)
	}
}

// allows checks the moves themselves.
func (m *model) allows(advice *Advice) bool {
	index := func(name, prefix string) int {
		var i int
		_, _ = fmt.Sscanf(name, prefix+"%d", &i)
		return i
	}
	set := 0
	var given []int
	for _, move := range advice.Moves {
		set |= 1 << index(move.Pod, "default/pod-")
	}
	for i := range m.pods {
		for _, move := range advice.Moves {
			if index(move.Pod, "default/pod-") == i {
				given = append(given, index(move.To, "node-"))
			}
		}
	}
	return m.canMove(set, index(advice.Node, "node-"), given)
}

// numaWorld has nodes with gpus GPUs each, the first half of them on NUMA node 0.
func numaWorld(nodes, gpus int) *whatif.Objects {
	o := world(make([]int, nodes)...)
	o.Slices = nil
	for i := range nodes {
		devices := builder.NumberedDevices("gpu", gpus)
		for j := range devices {
			devices[j].Attr("numa", j*2/max(1, gpus))
		}
		o.Slices = append(o.Slices, builder.NodeSlice(o.Nodes[i].Name, devices...).Obj())
	}
	return o
}

// holding puts a pod with a claim for some devices on a node.
func holding(o *whatif.Objects, name, node string, claim *builder.ClaimBuilder, devices ...string) *v1.Pod {
	c := claim.Allocated(node, devices...)
	pod := builder.Pod(name, builder.Container("main", "cpu", "1"), builder.Using(builder.Uses(c.Name)...), func(p *v1.Pod) { p.Spec.NodeName = node })
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	o.Claims, o.Pods = append(o.Claims, c), append(o.Pods, pod)
	return pod
}

// wanting is a pod with a claim from a template that the objects get.
func wanting(o *whatif.Objects, name string, claim *builder.ClaimBuilder) *v1.Pod {
	o.Templates = append(o.Templates, claim.Template())
	return builder.Pod(name, builder.Container("main", "cpu", "1"), builder.Using(builder.FromTemplate(claim.Obj().Name)...))
}
