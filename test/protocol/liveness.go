package protocol

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

// class is the actor of a step: a pod's attempt, a watch or a controller. An actor that can always take some step takes one
// at last (weak fairness), but which of its steps it takes is left to chance.
type class struct {
	action action
	who    uint8
}

// classOf returns the actor of a step, and whether that step is a fault, which happens only a limited number of times.
func classOf(l label) (c class, fault bool) {
	switch l.action {
	case doCrash, doDelete, doFail, doRelist, doUnpublish:
		return class{l.action, l.who}, true
	case doSee, doPublish, doRemoveDeleted:
		return class{l.action, l.who}, false
	case doListRest:
		return class{doListRest, l.who}, false
	case doDeliverLate:
		return class{action: doDeliverLate}, false
	default:
		return class{doPlan, l.who}, false // All other steps are those of a pod's attempt.
	}
}

// rests reports whether the state is at rest: each pod is bound, gone, or waits for a lasting reason, which is that the
// claims of bound pods leave too little for each of its choices.
func (m *model) rests(s *state) bool {
	for p, pod := range m.pods {
		is := &s.pods[p]
		if is.deleted || is.phase == protocol.Bound {
			continue
		}
		if s.claims[pod.claim].allocation != 0 {
			return false // It could join.
		}
		for _, choice := range m.claims[pod.claim] {
			if m.isLeft(s, pod.claim, choice) {
				return false
			}
		}
	}
	return true
}

// isLeft reports whether bound pods leave enough for a choice.
func (m *model) isLeft(s *state, claim uint8, c choice) bool {
	left := append([]uint8(nil), m.units...)
	for other := range m.claims {
		if uint8(other) != claim && m.isInUse(s, uint8(other)) {
			for resource, units := range m.takes[s.claims[other].allocation] {
				left[resource] -= min(units, left[resource])
			}
		}
	}
	for resource, units := range m.takes[c] {
		if units > left[resource] {
			return false
		}
	}
	return true
}

// isInUse reports whether a pod that exists is bound with the claim.
func (m *model) isInUse(s *state, claim uint8) bool {
	for p, pod := range m.pods {
		if pod.claim == claim && s.pods[p].phase == protocol.Bound && !s.pods[p].deleted {
			return true
		}
	}
	return false
}

// restful returns, for each state, whether it is at rest.
func (e *explorer) restful() []bool {
	rests := make([]bool, len(e.states))
	for at := range e.states {
		rests[at] = e.system.rests(&e.states[at])
	}
	return rests
}

// findStarvation looks for a state from which no way without faults leads to rest.
func (e *explorer) findStarvation() *trace {
	if at := e.cutOff(e.restful(), func(l label) bool { _, fault := classOf(l); return !fault }); at >= 0 {
		return e.trace(at, "from here, nothing but faults leads to where each pod is bound or has a reason to wait that lasts")
	}
	return nil
}

// findCircle looks for states among which steps can continue for ever, without faults and without passing anybody over,
// while some pod is neither bound nor has a lasting reason to wait.
func (e *explorer) findCircle() *trace {
	after := e.successors()
	for _, circle := range e.circles(e.restful(), after) {
		if e.isFair(circle, after) {
			return e.trace(circle[0], "from here, it may go round for ever, and no pod gets bound by that")
		}
	}
	return nil
}

// step is a step that is no fault.
type step struct {
	to int32
	by class
}

// successors returns a function that lists the steps from a state that are no faults.
func (e *explorer) successors() func(at int32) []step {
	start := make([]int32, len(e.states)+1)
	for i, from := range e.from {
		if _, fault := classOf(e.by[i]); !fault {
			start[from+1]++
		}
	}
	for i := range e.states {
		start[i+1] += start[i]
	}
	steps, next := make([]step, start[len(e.states)]), append([]int32(nil), start...)
	for i, from := range e.from {
		if by, fault := classOf(e.by[i]); !fault {
			steps[next[from]] = step{e.to[i], by}
			next[from]++
		}
	}
	return func(at int32) []step { return steps[start[at]:start[at+1]] }
}

// isFair reports whether steps within some states can continue for ever without passing over an actor that could always
// take a step: an actor that can take a step in all of them takes one that stays among them.
func (e *explorer) isFair(states []int32, after func(int32) []step) bool {
	within := make(map[int32]bool, len(states))
	for _, at := range states {
		within[at] = true
	}
	staying, can := make(map[class]bool), make(map[class]int)
	for _, at := range states {
		here := make(map[class]bool)
		for _, s := range after(at) {
			here[s.by] = true
			staying[s.by] = staying[s.by] || within[s.to]
		}
		for by := range here {
			can[by]++
		}
	}
	for by, n := range can {
		if n == len(states) && !staying[by] {
			return false
		}
	}
	return true
}

// stays reports whether the system can stay in a state: by a step that changes nothing, or because there is no step.
func stays(at int32, steps []step) bool {
	return len(steps) == 0 || slices.ContainsFunc(steps, func(s step) bool { return s.to == at })
}

// circles returns the strongly connected components of the states that are not settled, over steps that are no faults
// (Tarjan, without recursion). One state is a component if the system can stay there.
func (e *explorer) circles(settled []bool, after func(int32) []step) (found [][]int32) {
	type frame struct {
		at   int32
		next int
	}
	index, low := make([]int32, len(e.states)), make([]int32, len(e.states))
	on := make([]bool, len(e.states))
	var stack []int32
	var path []frame
	count := int32(0)
	enter := func(at int32) {
		count++
		index[at], low[at], on[at] = count, count, true
		stack, path = append(stack, at), append(path, frame{at: at})
	}
	for root := range e.states {
		if settled[root] || index[root] != 0 {
			continue
		}
		for enter(int32(root)); len(path) > 0; {
			top := &path[len(path)-1]
			at, steps := top.at, after(top.at)
			if top.next < len(steps) {
				to := steps[top.next].to
				top.next++
				switch {
				case settled[to]:
				case index[to] == 0:
					enter(to)
				case on[to]:
					low[at] = min(low[at], index[to])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				before := path[len(path)-1].at
				low[before] = min(low[before], low[at])
			}
			if low[at] != index[at] {
				continue
			}
			cut := len(stack) - 1
			for stack[cut] != at {
				cut--
			}
			for _, member := range stack[cut:] {
				on[member] = false
			}
			if len(stack)-cut > 1 || stays(at, steps) {
				found = append(found, append([]int32(nil), stack[cut:]...))
			}
			stack = stack[:cut]
		}
	}
	return found
}
