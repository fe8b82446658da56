// Package deadend remembers from where a search does not get anywhere.
package deadend

const (
	// most bounds the memory of a search.
	most = 10_000
	// worthRemembering is how many steps it must have taken to find out.
	worthRemembering = 2
)

// States are the states from which a search found no solution, so that it need not find that out
// again when it gets to the same state another way. The zero value has none.
type States struct {
	states map[string]struct{}
}

// Reset forgets all states.
func (s *States) Reset() { clear(s.states) }

// Has reports whether a state is among them.
func (s *States) Has(state string) bool {
	_, found := s.states[state]
	return found
}

// Add remembers a state that took a number of steps. An empty one stands for one that cannot be
// described.
func (s *States) Add(state string, steps int) {
	if state == "" || steps < worthRemembering || len(s.states) >= most {
		return
	}
	if s.states == nil {
		s.states = make(map[string]struct{})
	}
	s.states[state] = struct{}{}
}
