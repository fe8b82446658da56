package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// system is something with states and steps between them.
type system interface {
	initial() state
	// steps calls emit for each step that is possible in the state.
	steps(from *state, emit emitter)
	// broken returns the property that the state breaks, or "".
	broken(s *state) string
	// done reports whether the state is one that has to stay within reach.
	done(s *state) bool
	// rests reports whether each pod is bound, gone, or has a lasting reason to wait.
	rests(s *state) bool
	// describe returns the text of a step.
	describe(l label, to state) string
}

// report is the result of an exploration.
type report struct {
	states, steps int
	// violation is the shortest way into a state or through a step that breaks a
	// property; nil if there is none.
	violation *trace
	// trap is the shortest way into a state from which no state that is done can be reached any more; nil if there is
	// none. It is only sought if there is no violation.
	trap *trace
	// starvation is the shortest way into a state from which only faults lead to a state of rest; nil if there is
	// none. circle is a way into a state from which the steps may never lead to rest, although they pass over nobody.
	starvation, circle *trace
}

// trace is a way from the initial state, step by step, and the problem at its end.
type trace struct {
	steps []string
	end   string
}

func (t *trace) String() string {
	var b strings.Builder
	for i, step := range t.steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, step)
	}
	fmt.Fprintf(&b, "     %s", t.end)
	return b.String()
}

// arrival is the step by which a state was first reached.
type arrival struct {
	from int32
	by   label
}

// explorer visits states breadth first, so that the first way to a state is a shortest.
type explorer struct {
	system   system
	index    map[state]int32
	states   []state
	arrivals []arrival
	// from, to and by hold the steps: two positions in states, and the label.
	from, to []int32
	by       []label
}

// explore visits every state that can be reached. More states than limit are an error:
// an exploration that was cut short proves nothing.
func explore(sys system, limit int) (report, error) {
	e := &explorer{system: sys, index: make(map[state]int32)}
	e.visit(sys.initial(), arrival{from: -1})
	for at := int32(0); int(at) < len(e.states); at++ {
		if len(e.states) > limit {
			return report{}, fmt.Errorf("asked to explore at most %d states, found more; make the configuration smaller or raise the limit", limit)
		}
		if violation := e.expand(at); violation != nil {
			return report{states: len(e.states), steps: len(e.to), violation: violation}, nil
		}
	}
	return report{
		states: len(e.states), steps: len(e.to), trap: e.findTrap(), starvation: e.findStarvation(), circle: e.findCircle(),
	}, nil
}

// visit returns the position of a state, and whether it is new.
func (e *explorer) visit(s state, a arrival) (int32, bool) {
	if at, known := e.index[s]; known {
		return at, false
	}
	at := int32(len(e.states))
	e.index[s] = at
	e.states = append(e.states, s)
	e.arrivals = append(e.arrivals, a)
	return at, true
}

// expand takes all steps that are possible in a state.
func (e *explorer) expand(at int32) *trace {
	var violation *trace
	from := e.states[at] // a copy: the slice grows
	e.system.steps(&from, func(l label, to *state, broken string) {
		next, isNew := e.visit(*to, arrival{at, l})
		e.from, e.to, e.by = append(e.from, at), append(e.to, next), append(e.by, l)
		if broken == "" && isNew {
			broken = e.system.broken(to)
		}
		if broken != "" && violation == nil {
			violation = e.trace(at, broken)
			violation.steps = append(violation.steps, e.system.describe(l, *to))
		}
	})
	return violation
}

// trace returns the first way to a state.
func (e *explorer) trace(at int32, end string) *trace {
	var backwards []string
	for a := e.arrivals[at]; a.from >= 0; at, a = a.from, e.arrivals[a.from] {
		backwards = append(backwards, e.system.describe(a.by, e.states[at]))
	}
	t := &trace{end: end}
	for i := len(backwards) - 1; i >= 0; i-- {
		t.steps = append(t.steps, backwards[i])
	}
	return t
}

// findTrap looks for a state from which no state that is done is within reach.
func (e *explorer) findTrap() *trace {
	done := make([]bool, len(e.states))
	for at := range e.states {
		done[at] = e.system.done(&e.states[at])
	}
	if at := e.cutOff(done, func(label) bool { return true }); at >= 0 {
		return e.trace(at, "from here, no way leads to a state in which all pods are bound")
	}
	return nil
}

// cutOff goes backwards from all goals by the steps that count. It returns the first state that it does not reach, -1
// if there is none.
func (e *explorer) cutOff(goals []bool, counts func(label) bool) int32 {
	before := e.predecessors(counts)
	escapes := append([]bool(nil), goals...)
	var queue []int32
	for at, goal := range goals {
		if goal {
			queue = append(queue, int32(at))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range before(at) {
			if !escapes[from] {
				escapes[from] = true
				queue = append(queue, from)
			}
		}
	}
	return int32(slices.Index(escapes, false))
}

// predecessors returns a function that lists the states from which a step that counts leads to a state.
func (e *explorer) predecessors(counts func(label) bool) func(at int32) []int32 {
	start := make([]int32, len(e.states)+1)
	for i, to := range e.to {
		if counts(e.by[i]) {
			start[to+1]++
		}
	}
	for i := range e.states {
		start[i+1] += start[i]
	}
	sorted, next := make([]int32, start[len(e.states)]), append([]int32(nil), start...)
	for i, to := range e.to {
		if counts(e.by[i]) {
			sorted[next[to]] = e.from[i]
			next[to]++
		}
	}
	return func(at int32) []int32 { return sorted[start[at]:start[at+1]] }
}
