package search

const (
	// most limits the number of states that a search remembers.
	most = 10_000
	// worthRemembering is the minimum number of steps that a remembered state took.
	worthRemembering = 2
)

// States are the states from which a search found no solution. The search need not explore them again when it
// reaches them in another way. The zero value is empty.
type States struct {
	states map[string]struct{}
}

// Reset forgets all states.
func (s *States) Reset() { clear(s.states) }

// Has reports whether a state is known as a dead end.
func (s *States) Has(state string) bool {
	_, found := s.states[state]
	return found
}

// Add remembers a state that took a number of steps. An empty text stands for a state that cannot be described.
func (s *States) Add(state string, steps int) {
	if state == "" || steps < worthRemembering || len(s.states) >= most {
		return
	}
	if s.states == nil {
		s.states = make(map[string]struct{})
	}
	s.states[state] = struct{}{}
}
