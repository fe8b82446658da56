package search

import (
	"cmp"
	"context"
	"encoding/binary"
	"iter"
	"slices"
)

// chain is the search for nodes that affect each other: it places pods one after the other, and revises the last
// choice first.
type chain struct {
	Problem
	ctx   context.Context
	judge Judge
	// steps is the rest of the budget. stopped is set when it is used up, or the context has ended.
	steps   int
	stopped bool
	// unsure is set if the Judge could not answer.
	unsure      bool
	assignments []Assignment
	counts      []int
	most        []int
}

func newChain(ctx context.Context, p Problem, judge Judge) *chain {
	return &chain{
		Problem: p, ctx: ctx, judge: judge, steps: p.Steps,
		assignments: []Assignment{}, counts: make([]int, len(p.Classes)), most: make([]int, len(p.Classes)),
	}
}

func (c *chain) search() Result {
	if c.place(0, 0, c.pods()-c.Need) {
		return Result{Assignments: c.assignments, Most: c.most}
	}
	if slices.ContainsFunc(c.Classes, func(class Class) bool { return class.Ordered && class.Pods > 0 }) {
		c.steps, c.stopped = c.Steps, false
		if c.mix(make(map[string]bool)) {
			return Result{Assignments: c.assignments, Most: c.most}
		}
	}
	gaveUp := c.unsure || c.stopped && !c.isTooLittle()
	c.countWithoutTurningBack()
	return Result{Most: c.most, GaveUp: gaveUp}
}

// countWithoutTurningBack counts how many pods fit without a minimum: place ends with the first class that does
// not fit unless it may leave out pods.
func (c *chain) countWithoutTurningBack() {
	c.steps, c.stopped = max(c.Steps, c.pods()+len(c.Nodes)), false
	c.place(0, 0, c.pods())
	for i := range slices.Backward(c.assignments) {
		c.remove(c.assignments[i].Class)
	}
}

// place places the rest of a class on nodes from the given position of Nodes on, and then the classes after it. It
// may leave out up to spare pods. If it fails, it restores the previous state.
func (c *chain) place(class, from, spare int) bool {
	if class == len(c.Classes) {
		return true
	}
	rest := c.Classes[class].Pods - c.counts[class]
	if rest == 0 {
		return c.place(class+1, 0, spare)
	}
	for position := range c.positions(class, from) {
		if !c.add(class, c.Nodes[position]) {
			if c.stopped {
				return false
			}
			continue
		}
		if c.place(class, position, spare) {
			return true
		}
		c.remove(class)
		if c.stopped {
			return false
		}
	}
	return spare >= rest && c.place(class+1, 0, spare-rest)
}

// positions returns the nodes to try for the next pod of a class, where the previous one is at from. Pods of a class
// are interchangeable, so they go from left to right. If the class is Ordered, a node further to the left may have room
// by now: then positions uses up the current round before other ones.
func (c *chain) positions(class, from int) iter.Seq[int] {
	start, end := 0, len(c.Nodes)
	for _, begin := range c.Rounds {
		if begin <= from {
			start = begin
		} else {
			end = begin
			break
		}
	}
	parts := [][2]int{{from, end}, {start, from}, {end, len(c.Nodes)}, {0, start}}
	if !c.Classes[class].Ordered {
		parts = [][2]int{{from, len(c.Nodes)}}
	}
	return func(yield func(int) bool) {
		for _, part := range parts {
			for position := part[0]; position < part[1]; position++ {
				if !yield(position) {
					return
				}
			}
		}
	}
}

func (c *chain) add(class, node int) bool {
	if c.steps <= 0 || c.ctx.Err() != nil {
		c.stopped = true
		return false
	}
	c.steps--
	answer := c.judge.Add(class, node)
	c.unsure = c.unsure || answer == Unknown
	if answer != Yes {
		return false
	}
	c.assignments = append(c.assignments, Assignment{Class: class, Node: node})
	c.counts[class]++
	if sum(c.counts) > sum(c.most) {
		c.most = slices.Clone(c.counts)
	}
	return true
}

func (c *chain) remove(class int) {
	c.judge.Remove()
	c.assignments = c.assignments[:len(c.assignments)-1]
	c.counts[class]--
}

// isTooLittle reports whether the gang does not fit even if each class had each node to itself. Then the answer is
// certain although the search has stopped. isTooLittle takes as many steps again.
func (c *chain) isTooLittle() bool {
	if slices.ContainsFunc(c.Classes, func(class Class) bool { return class.Ordered }) {
		return false
	}
	c.steps, c.stopped = c.Steps, false
	fits := 0
	for class := range c.Classes {
		of := 0
		for _, node := range c.Nodes {
			alone := 0
			for of+alone < c.Classes[class].Pods && c.add(class, node) {
				alone++
			}
			for range alone {
				c.remove(class)
			}
			of += alone
			if c.stopped || c.unsure {
				return false
			}
		}
		fits += of
	}
	return fits < c.Need
}

// mix places enough pods in any order, after placing class by class has failed. The outcome depends only on how many
// pods of each class are on which node, so mix does not repeat states that led nowhere.
func (c *chain) mix(nowhere map[string]bool) bool {
	if sum(c.counts) >= c.Need {
		c.addMore()
		return true
	}
	key := c.key()
	if nowhere[key] {
		return false
	}
	for class := range slices.Backward(c.Classes) { // The order of place comes last.
		if c.counts[class] == c.Classes[class].Pods {
			continue
		}
		for _, node := range c.Nodes {
			if c.add(class, node) {
				if c.mix(nowhere) {
					return true
				}
				c.remove(class)
			}
			if c.stopped {
				return false
			}
		}
	}
	nowhere[key] = true
	return false
}

// addMore adds as many more pods as fit without turning back.
func (c *chain) addMore() {
	for class := range c.Classes {
		for _, node := range c.Nodes {
			for c.counts[class] < c.Classes[class].Pods && c.add(class, node) {
			}
		}
	}
}

// key identifies how many pods of each class are on which node.
func (c *chain) key() string {
	assignments := slices.Clone(c.assignments)
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Node, b.Node)) })
	var key []byte
	for _, assignment := range assignments {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(assignment.Class)), uint64(assignment.Node))
	}
	return string(key)
}
