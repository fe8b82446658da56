package search

import (
	"context"
	"slices"
)

// mostStates limits the states that are kept. Of these, none has at least as many pods as another one in all
// classes. With one class there is only one state.
const mostStates = 256

// mostEffort limits the time for combinations of classes on nodes to about half a second: an Add costs addingEffort, a
// comparison of two states costs one. After that, only the first combination of each node counts.
const (
	mostEffort   = 10_000_000
	addingEffort = 500
)

// counting is the search for nodes that do not affect each other. Node by node, it finds out which numbers of pods
// of each class fit there together, and adds these to what the previous nodes take.
type counting struct {
	Problem
	ctx   context.Context
	judge Judge
	// states are the best states so far.
	states []*state
	// effort is the rest of mostEffort.
	effort int
	// unsure is set if a node may take more than was found.
	unsure bool
}

// A state is one way to place pods on some nodes.
type state struct {
	// counts is the number of placed pods by class, at most Class.Pods.
	counts []int
	// before is the state to which took was added on the node; nil in the empty state.
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
	if result.Assignments = c.assignment(best); result.Assignments == nil {
		result.GaveUp = true
		return result
	}
	result.GaveUp = false
	return result
}

// best returns the state with the most pods; of several the one found first.
func (c *counting) best() *state {
	best := c.states[0]
	for _, s := range c.states[1:] {
		if sum(s.counts) > sum(best.counts) {
			best = s
		}
	}
	return best
}

// options returns the combinations of numbers of pods, by class, that fit on a node together, without those that
// another one covers. The Judge has no pods on the node before and after.
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
	// left is the number of pods by class that may still have to be placed.
	left  []int
	took  []int
	found [][]int
}

// from finds the options that contain what was already taken of the classes before class.
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

// covers reports whether a is at least b in each class.
func covers(a, b []int) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}

// extend adds each of the node's options to each state.
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

// withoutCovered removes states that another one covers; of equal states it keeps the one found first.
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

// assignment adds the pods of a state to the Judge. It returns nil, and adds none, if they do not fit after all.
func (c *counting) assignment(s *state) []Assignment {
	var path []*state
	for ; s.before != nil; s = s.before {
		path = append(path, s)
	}
	assignments := []Assignment{}
	for _, step := range slices.Backward(path) {
		for class, n := range step.took {
			for range n {
				if c.judge.Add(class, step.node) != Yes {
					for range assignments {
						c.judge.Remove()
					}
					return nil
				}
				assignments = append(assignments, Assignment{Class: class, Node: step.node})
			}
		}
	}
	return assignments
}
