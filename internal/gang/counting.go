package gang

import (
	"context"
	"slices"
)

// mostStates is how many ways to have placed pods on the nodes so far are kept, of which none is at least as good as
// another in all classes. With one class there is one.
const mostStates = 256

// mostEffort bounds the time that is spent on combinations of classes on nodes, to half a second or so: to add a pod to a node
// counts addingEffort, to compare two ways one. Then only the first combination of each node counts.
const (
	mostEffort   = 10_000_000
	addingEffort = 500
)

// counting is the search where nodes have nothing to do with each other. It goes from node to node, finds out which
// numbers of pods of each class fit there together, and adds these to what the nodes before have taken.
type counting struct {
	Problem
	ctx   context.Context
	judge Judge
	// states are the best ways so far.
	states []*state
	// effort is what is left of mostEffort.
	effort int
	// unsure is set if a node may take more than is known.
	unsure bool
}

// state is one way to place pods on some nodes.
type state struct {
	// counts has how many pods of each class are placed, no more than there are.
	counts []int
	// before is the state to which took was added on the node; nil if nothing was placed.
	before *state
	node   int
	took   []int
}

func newCounting(ctx context.Context, p Problem, judge Judge) *counting {
	return &counting{Problem: p, ctx: ctx, judge: judge, effort: mostEffort, states: []*state{{counts: make([]int, len(p.Classes))}}}
}

func (c *counting) search() Result {
	all := c.pods()
	for _, node := range c.Nodes {
		if c.ctx.Err() != nil {
			c.unsure = true
			break
		}
		c.extend(node, c.options(node))
		if sum(c.best().counts) == all {
			break
		}
	}
	best := c.best()
	result := Result{Most: best.counts, GaveUp: c.unsure}
	if sum(best.counts) < c.Need {
		return result
	}
	if result.Seats = c.seat(best); result.Seats == nil {
		result.GaveUp = true
		return result
	}
	result.GaveUp = false
	return result
}

// best returns the state in which the most pods are placed; of several the one found first.
func (c *counting) best() *state {
	best := c.states[0]
	for _, s := range c.states[1:] {
		if sum(s.counts) > sum(best.counts) {
			best = s
		}
	}
	return best
}

// options returns which numbers of pods of each class fit on a node together. Of those of which another one has at
// least as many of each class there is none. The Judge has nothing on the node before and after.
func (c *counting) options(node int) [][]int {
	left := make([]int, len(c.Classes))
	for class := range left {
		placed := c.Classes[class].Pods
		for _, s := range c.states {
			placed = min(placed, s.counts[class])
		}
		left[class] = c.Classes[class].Pods - placed
	}
	o := options{counting: c, node: node, left: left, took: make([]int, len(left))}
	o.from(0)
	return o.found
}

type options struct {
	*counting
	node int
	// left is how many pods of each class there still may be to place.
	left  []int
	took  []int
	found [][]int
}

// from finds the options that have, of the classes before, what was taken already.
func (o *options) from(class int) {
	if class == len(o.left) {
		o.effort -= len(o.found)
		if sum(o.took) > 0 && !slices.ContainsFunc(o.found, func(other []int) bool { return covers(other, o.took) }) {
			o.found = append(o.found, slices.Clone(o.took))
		}
		return
	}
	for o.took[class] < o.left[class] {
		if len(o.found) > 0 {
			o.effort -= addingEffort
		}
		answer := o.judge.Add(class, o.node)
		o.unsure = o.unsure || answer == Unknown
		if answer != Yes {
			break
		}
		o.took[class]++
	}
	o.from(class + 1)
	for o.took[class] > 0 {
		o.judge.Remove()
		o.took[class]--
		switch {
		case class == len(o.left)-1: // Fewer of the last class are never better.
		case o.effort <= 0:
			o.unsure = true
		default:
			o.from(class + 1)
		}
	}
}

// covers reports whether a has at least as many as b of each class.
func covers(a, b []int) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}

// extend adds what the node takes to each of the states.
func (c *counting) extend(node int, options [][]int) {
	if len(options) == 0 {
		return
	}
	states := slices.Clone(c.states)
	for _, s := range c.states {
		for _, option := range options {
			next := &state{before: s, node: node, counts: slices.Clone(s.counts), took: make([]int, len(option))}
			for class, n := range option {
				next.took[class] = min(n, c.Classes[class].Pods-s.counts[class])
				next.counts[class] += next.took[class]
			}
			states = append(states, next)
		}
	}
	c.states = c.withoutCovered(states)
}

// withoutCovered returns the states that no other one covers, the ones found first where they are equal.
func (c *counting) withoutCovered(states []*state) []*state {
	var kept []*state
	for _, s := range states {
		c.effort -= len(kept)
		if slices.ContainsFunc(kept, func(other *state) bool { return covers(other.counts, s.counts) }) {
			continue
		}
		kept = slices.DeleteFunc(kept, func(other *state) bool { return covers(s.counts, other.counts) })
		kept = append(kept, s)
	}
	most := mostStates
	if c.effort <= 0 {
		most = 1
	}
	if len(kept) > most {
		slices.SortStableFunc(kept, func(a, b *state) int { return sum(b.counts) - sum(a.counts) })
		kept, c.unsure = kept[:most], true
	}
	return kept
}

// seat adds the pods of a state to the Judge. It returns nil, and adds none, if they do not fit after all.
func (c *counting) seat(s *state) []Seat {
	var path []*state
	for ; s.before != nil; s = s.before {
		path = append(path, s)
	}
	seats := []Seat{}
	for _, step := range slices.Backward(path) {
		for class, n := range step.took {
			for range n {
				if c.judge.Add(class, step.node) != Yes {
					for range seats {
						c.judge.Remove()
					}
					return nil
				}
				seats = append(seats, Seat{Class: class, Node: step.node})
			}
		}
	}
	return seats
}
