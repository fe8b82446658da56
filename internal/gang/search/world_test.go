package search

import "math/rand/v2"

// world is a simple Judge of a few resources: two of nodes, and one that all nodes share.
type world struct {
	// free holds the free amounts of each node's two resources.
	free [][2]int
	// shared is the free amount of the resource that all nodes share.
	shared int
	needs  []need
	// at is the number of pods of each class on each node.
	at    [][]int
	added []Assignment
	asked int
}

// need is the demand of a pod of a class.
type need struct {
	own    [2]int
	shared int
	// alone is set for pods of which a node takes only one; beside is a class that must be on the node already, -1 for
	// none.
	alone  bool
	beside int
}

func (w *world) Add(class, node int) Answer {
	w.asked++
	if !w.fits(class, node) {
		return No
	}
	w.take(class, node, 1)
	w.added = append(w.added, Assignment{Class: class, Node: node})
	return Yes
}

func (w *world) Remove() {
	last := w.added[len(w.added)-1]
	w.added = w.added[:len(w.added)-1]
	w.take(last.Class, last.Node, -1)
}

func (w *world) fits(class, node int) bool {
	n := w.needs[class]
	return n.own[0] <= w.free[node][0] && n.own[1] <= w.free[node][1] && n.shared <= w.shared &&
		(!n.alone || w.at[class][node] == 0) && (n.beside < 0 || w.at[n.beside][node] > 0)
}

func (w *world) take(class, node, times int) {
	n := w.needs[class]
	w.free[node][0] -= times * n.own[0]
	w.free[node][1] -= times * n.own[1]
	w.shared -= times * n.shared
	w.at[class][node] += times
}

// mostByTrying returns the largest number of pods that fit, by an exhaustive search.
func (w *world) mostByTrying(left []int) int {
	most := 0
	for class := range left {
		if left[class] == 0 {
			continue
		}
		for node := range w.free {
			if w.Add(class, node) == Yes {
				left[class]--
				most = max(most, 1+w.mostByTrying(left))
				left[class]++
				w.Remove()
			}
		}
	}
	return most
}

// randomWorld returns a small random world and a gang. Without ties, nodes do not affect each other.
func randomWorld(r *rand.Rand, ties bool) (*world, Problem) {
	w := &world{shared: 100}
	nodes, classes := 1+r.IntN(4), 1+r.IntN(3)
	p := Problem{Apart: !ties, Steps: 2000}
	if ties {
		w.shared = r.IntN(4)
	}
	for node := range nodes {
		w.free = append(w.free, [2]int{r.IntN(5), r.IntN(5)})
		p.Nodes = append(p.Nodes, node)
	}
	pods := 0
	for class := range classes {
		n := need{own: [2]int{r.IntN(3), r.IntN(3)}, alone: r.IntN(4) == 0, beside: -1}
		c := Class{Pods: 1 + r.IntN(3)}
		if ties {
			n.shared = r.IntN(2)
			if class > 0 && r.IntN(3) == 0 {
				n.beside, c.Ordered = r.IntN(class), true
			}
		}
		pods += c.Pods
		p.Classes, w.needs, w.at = append(p.Classes, c), append(w.needs, n), append(w.at, make([]int, nodes))
	}
	for pods > 5 { // An exhaustive search is limited.
		last := len(p.Classes) - 1
		if p.Classes[last].Pods--; p.Classes[last].Pods == 0 {
			p.Classes, w.needs, w.at = p.Classes[:last], w.needs[:last], w.at[:last]
		}
		pods--
	}
	p.Need = 1 + r.IntN(pods)
	return w, p
}
