package choose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unit is a unit of one pod that holds a number of devices on a node, both in its name: "node/devices".
func unit(name string, priority int32) *Unit {
	return &Unit{Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: name}}}, Priority: priority}
}

// place is the number of the gang's pods, with one device each, by node.
type place map[int]int

// world is a cluster of nodes with some devices each, and units on them.
type world struct {
	nodes, devices int
	at             map[*Unit][2]int // node, devices
}

func (w *world) question(units []*Unit, pods, budget int) *Question[place] {
	return &Question[place]{Units: units, Budget: budget, DryRun: &dryRun{w, units, pods}}
}

// dryRun implements DryRun for a gang of some pods.
type dryRun struct {
	*world
	units []*Unit
	pods  int
}

func (d *dryRun) plan(nodes map[int]bool, gone []*Unit) (place, bool) {
	left, result := d.pods, make(place)
	for node := range d.nodes {
		free := d.devices
		for _, unit := range d.units {
			if at := d.at[unit]; at[0] == node && !slices.Contains(gone, unit) {
				free -= at[1]
			}
		}
		if n := min(free, left); n > 0 && (nodes == nil || nodes[node]) {
			result[node] = n
			left -= n
		}
	}
	return result, left == 0
}

func (d *dryRun) Fits(gone []*Unit) (place, bool) { return d.plan(nil, gone) }

func (d *dryRun) Within(of place, gone []*Unit) (place, bool) {
	nodes := make(map[int]bool)
	for node := range of {
		nodes[node] = true
	}
	return d.plan(nodes, gone)
}

func (d *dryRun) InTheWay(of place, unit *Unit) bool { return of[d.at[unit][0]] > 0 }

// TestChoose: in random clusters the gang fits without the victims, if it fits at all; none of a higher priority than
// necessary goes, and none that could have stayed.
func TestChoose(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &world{nodes: 1 + random.IntN(4), devices: 1 + random.IntN(4), at: make(map[*Unit][2]int)}
		var units []*Unit
		for node := range w.nodes {
			for left := w.devices; left > 0; {
				n := 1 + random.IntN(left)
				u := unit(fmt.Sprintf("%d/%d", node, n), int32(random.IntN(3)))
				w.at[u], left = [2]int{node, n}, left-n
				if random.IntN(4) > 0 {
					units = append(units, u)
				}
			}
		}
		slices.SortStableFunc(units, func(a, b *Unit) int { return int(b.Priority - a.Priority) })
		pods := 1 + random.IntN(w.nodes*w.devices)
		q := w.question(units, pods, 1000)
		victims, plan, ok := q.Choose()
		if _, fits := q.Fits(nil); fits {
			continue // No pod has to go, so Choose is not called.
		}
		_, fits := q.Fits(units)
		require.Equal(t, fits && len(units) > 0, ok, "seed %d", seed)
		if !ok {
			continue
		}
		placed := 0
		for _, n := range plan {
			placed += n
		}
		require.Equal(t, pods, placed)
		_, fits = q.Fits(victims)
		require.True(t, fits, "seed %d", seed)
		for i, victim := range victims {
			others := slices.Concat(victims[:i], victims[i+1:])
			_, fits = q.Within(plan, others)
			require.False(t, fits, "seed %d: %s could have stayed", seed, victim.Pods[0].Name)
			lower := slices.DeleteFunc(slices.Clone(units), func(unit *Unit) bool { return unit.Priority >= victim.Priority })
			_, fits = q.Fits(lower)
			require.False(t, fits, "seed %d: only pods of lower priority had to go", seed)
		}
	}
}

// TestWholeGangs: if a gang loses its core, all of it goes; pods beyond the core go alone.
func TestWholeGangs(t *testing.T) {
	t.Parallel()
	core, beyond, other := unit("0/2", 0), unit("1/1", 0), unit("1/1", 0)
	core.Gang, core.Core, beyond.Gang = "ns/a", true, "ns/a"
	w := &world{nodes: 2, devices: 2, at: map[*Unit][2]int{core: {0, 2}, beyond: {1, 1}, other: {1, 1}}}
	victims, _, ok := w.question([]*Unit{core, other, beyond}, 1, 100).Choose()
	require.True(t, ok)
	require.NotContains(t, victims, other)
	victims, _, ok = w.question([]*Unit{core, other, beyond}, 4, 100).Choose()
	require.True(t, ok)
	require.ElementsMatch(t, []*Unit{core, beyond, other}, victims)
	w.at[other] = [2]int{1, 0}
	victims, _, ok = w.question([]*Unit{core, beyond}, 3, 100).Choose()
	require.True(t, ok)
	require.ElementsMatch(t, []*Unit{core, beyond}, victims, "what is left of a gang does not run on")
	victims, _, ok = w.question([]*Unit{core, beyond}, 2, 100).Choose()
	require.True(t, ok)
	require.Equal(t, []*Unit{beyond}, victims)
}

// TestSpareBesideCore: a gang keeps running if it suffices to evict a pod that it can lose, even if another place would
// be chosen once the whole gang is gone.
func TestSpareBesideCore(t *testing.T) {
	t.Parallel()
	core, beyond := unit("0/1", 0), unit("0/1", 0)
	core.Gang, core.Core, beyond.Gang = "ns/a", true, "ns/a"
	w := &world{nodes: 3, devices: 2, at: map[*Unit][2]int{core: {0, 1}, beyond: {0, 1}}}
	var stay []*Unit
	for node := range 2 {
		stay = append(stay, unit(fmt.Sprintf("%d/1", node+1), 5))
		w.at[stay[node]] = [2]int{node + 1, 1}
	}
	q := w.question(append(stay, core, beyond), 3, 100)
	q.Units = []*Unit{core, beyond}
	victims, plan, ok := q.Choose()
	require.True(t, ok)
	require.Equal(t, []*Unit{beyond}, victims)
	require.Equal(t, place{0: 1, 1: 1, 2: 1}, plan)
}

// TestBudget: without a budget, it is unknown whether the gang fits; with a small one, more pods may go than necessary.
func TestBudget(t *testing.T) {
	t.Parallel()
	a, b := unit("0/1", 0), unit("0/1", 0)
	w := &world{nodes: 1, devices: 2, at: map[*Unit][2]int{a: {0, 1}, b: {0, 1}}}
	_, _, ok := w.question([]*Unit{a, b}, 1, 1).Choose()
	require.False(t, ok)
	victims, _, ok := w.question([]*Unit{a, b}, 1, 2).Choose()
	require.True(t, ok)
	require.Len(t, victims, 2)
	victims, _, ok = w.question([]*Unit{a, b}, 1, 5).Choose()
	require.True(t, ok)
	require.Equal(t, []*Unit{b}, victims, "the more important one stays")
	_, _, ok = w.question(nil, 1, 5).Choose()
	require.False(t, ok)
}
