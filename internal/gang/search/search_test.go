package search

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSearchFindsWhatThereIs compares Search with an exhaustive search: a gang fits if and only if enough of its pods
// fit at the same time, and the result is valid.
func TestSearchFindsWhatThereIs(t *testing.T) {
	t.Parallel()
	for name, ties := range map[string]bool{"nodes apart": false, "with ties": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			fit, gaveUp := 0, 0
			const worlds = 3000
			for i := range worlds {
				w, p := randomWorld(r, ties)
				var left []int
				for _, class := range p.Classes {
					left = append(left, class.Pods)
				}
				most := w.mostByTrying(left)
				result := Search(t.Context(), p, w)
				if result.GaveUp {
					gaveUp++
					continue
				}
				require.Equal(t, most >= p.Need, result.Fits(), "world %d: %+v, %+v", i, *w, p)
				require.LessOrEqual(t, sum(result.Most), most, "world %d", i)
				if !result.Fits() {
					require.Empty(t, w.added, "world %d: all is as it was before", i)
					require.True(t, ties || most == sum(result.Most), "world %d: %d fit, not %d", i, most, sum(result.Most))
					continue
				}
				fit++
				require.Equal(t, result.Assignments, w.added, "world %d: the Judge has what is placed", i)
				require.GreaterOrEqual(t, len(result.Assignments), p.Need, "world %d", i)
			}
			require.Greater(t, fit, worlds/4)
			require.Less(t, fit, worlds*9/10)
			require.Less(t, gaveUp, worlds/100, "gave up")
		})
	}
}

// TestAsManyAsPossible: more pods than needed are placed if there is room.
func TestAsManyAsPossible(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{true, false} {
		w := &world{free: [][2]int{{2, 9}, {3, 9}}, shared: 9, needs: []need{{own: [2]int{1, 0}, beside: -1}}, at: [][]int{{0, 0}}}
		result := Search(t.Context(), Problem{Classes: []Class{{Pods: 7}}, Nodes: []int{1, 0}, Need: 2, Apart: apart, Steps: 100}, w)
		require.Equal(t, []Assignment{{0, 1}, {0, 1}, {0, 1}, {0, 0}, {0, 0}}, result.Assignments, "apart: %v", apart)
	}
}

// TestEachNodeOnce: a thousand pods on five thousand nodes are counted: each node is asked at most twice for each pod
// that it takes, and not at all once all pods are placed.
func TestEachNodeOnce(t *testing.T) {
	t.Parallel()
	w := &world{shared: 1, needs: []need{{own: [2]int{1, 0}, beside: -1}}, at: [][]int{make([]int, 5000)}}
	p := Problem{Classes: []Class{{Pods: 1000}}, Need: 1000, Apart: true}
	for node := range 5000 {
		w.free = append(w.free, [2]int{8 * (node % 2), 0})
		p.Nodes = append(p.Nodes, node)
	}
	result := Search(t.Context(), p, w)
	require.Len(t, result.Assignments, 1000)
	require.LessOrEqual(t, w.asked, 1000*2+250)
}

// TestGivesUp: an unknown answer is not "no".
func TestGivesUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		apart  bool
		answer Answer
		steps  int
		ended  bool
		gaveUp bool
	}{
		"no":                    {apart: true, answer: No},
		"unknown":               {apart: true, answer: Unknown, gaveUp: true},
		"no time":               {apart: true, answer: No, ended: true, gaveUp: true},
		"shared, no":            {answer: No, steps: 100},
		"shared, unknown":       {answer: Unknown, steps: 100, gaveUp: true},
		"shared, no time":       {answer: No, steps: 100, ended: true, gaveUp: true},
		"shared, out of budget": {answer: Yes, steps: 1, gaveUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.ended {
				cancel()
			}
			result := Search(ctx, Problem{Classes: []Class{{Pods: 2}}, Nodes: []int{0, 1}, Need: 2, Apart: test.apart, Steps: test.steps}, always(test.answer))
			require.False(t, result.Fits())
			require.Equal(t, test.gaveUp, result.GaveUp)
		})
	}
}

// TestTooLittleIsKnown: a search without budget still says no if the nodes have too little even one by one.
func TestTooLittleIsKnown(t *testing.T) {
	t.Parallel()
	w := &world{shared: 99, needs: []need{{own: [2]int{1, 0}, shared: 1, beside: -1}}, at: [][]int{make([]int, 12)}}
	p := Problem{Classes: []Class{{Pods: 13}}, Need: 13, Steps: 60}
	for node := range 12 {
		w.free, p.Nodes = append(w.free, [2]int{1, 1}), append(p.Nodes, node)
	}
	result := Search(t.Context(), p, w)
	require.False(t, result.GaveUp)
	require.Equal(t, []int{12}, result.Most)
	require.Empty(t, w.added)
}

// TestManyClasses: a gang in which no two pods are alike is placed, although a node has too many combinations of its
// pods to try them all.
func TestManyClasses(t *testing.T) {
	t.Parallel()
	const nodes, pods = 12, 80
	w := &world{shared: 1}
	p := Problem{Need: pods, Apart: true}
	for node := range nodes {
		w.free, p.Nodes = append(w.free, [2]int{8, 0}), append(p.Nodes, node)
	}
	for range pods {
		w.needs, w.at = append(w.needs, need{own: [2]int{1, 0}, beside: -1}), append(w.at, make([]int, nodes))
		p.Classes = append(p.Classes, Class{Pods: 1})
	}
	result := Search(t.Context(), p, w)
	require.Len(t, result.Assignments, pods)
	require.Less(t, w.asked, 200_000)
}

// TestInAnyOrder: pods of one class may have to be placed between pods of another class that must be beside them.
func TestInAnyOrder(t *testing.T) {
	t.Parallel()
	// Each pod of class 0 needs one of class 1 on the node, which needs one of class 2 there, and these are the last.
	w := &world{free: [][2]int{{3, 0}, {3, 0}}, shared: 9, at: [][]int{{0, 0}, {0, 0}, {0, 0}}}
	w.needs = []need{{own: [2]int{1, 0}, beside: 1}, {own: [2]int{1, 0}, beside: 2}, {own: [2]int{1, 0}, beside: -1}}
	classes := []Class{{Pods: 2, Ordered: true}, {Pods: 2, Ordered: true}, {Pods: 2}}
	result := Search(t.Context(), Problem{Classes: classes, Nodes: []int{0, 1}, Need: 6, Steps: 1000}, w)
	require.Len(t, result.Assignments, 6)
	w.free[1][0], w.added = 2, nil
	for class := range w.at {
		w.at[class] = []int{0, 0}
	}
	w.free[0][0] = 3
	result = Search(t.Context(), Problem{Classes: classes, Nodes: []int{0, 1}, Need: 6, Steps: 1000}, w)
	require.False(t, result.Fits())
	require.False(t, result.GaveUp)
	require.Empty(t, w.added)
}

// TestRounds: if the order matters, a round is used up before the next one, and no node is asked repeatedly in vain.
func TestRounds(t *testing.T) {
	t.Parallel()
	c := newChain(t.Context(), Problem{Classes: []Class{{Ordered: true}, {}}, Nodes: make([]int, 6), Rounds: []int{2, 4}}, nil)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, slices.Collect(c.positions(0, 0)))
	require.Equal(t, []int{3, 2, 4, 5, 0, 1}, slices.Collect(c.positions(0, 3)))
	require.Equal(t, []int{5, 4, 0, 1, 2, 3}, slices.Collect(c.positions(0, 5)))
	require.Equal(t, []int{3, 4, 5}, slices.Collect(c.positions(1, 3)))
	c.Rounds = nil
	require.Equal(t, []int{3, 4, 5, 0, 1, 2}, slices.Collect(c.positions(0, 3)))
}

type always Answer

func (a always) Add(int, int) Answer { return Answer(a) }
func (a always) Remove()             {}

// TestCovers checks the order "at least as good".
func TestCovers(t *testing.T) {
	t.Parallel()
	require.True(t, covers([]int{2, 1}, []int{2, 0}))
	require.False(t, covers([]int{2, 1}, []int{1, 2}))
	require.True(t, slices.ContainsFunc([][]int{{0, 1}}, func(a []int) bool { return covers(a, []int{0, 1}) }))
}
