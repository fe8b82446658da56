package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStepIsPure: a state that was stepped from can be stepped from again.
func TestStepIsPure(t *testing.T) {
	t.Parallel()
	before := Begin(Claim{}, Claim{})
	after, _ := Step(before, Event{Kind: PutInFlight, Claim: 1})
	require.False(t, before.Claims[1].InFlight)
	require.True(t, after.Claims[1].InFlight)
	started, _ := Step(after, Event{Kind: Started})
	again, _ := Step(after, Event{Kind: Started})
	require.Equal(t, started, again)
	require.Equal(t, Planned, after.Phase)
}

// reach visits all transitions of attempts with two claims.
func reach(t *testing.T, visit func(from Attempt, e Event, to Attempt, actions []Action)) {
	t.Helper()
	type key struct {
		phase  Phase
		at     int
		claims [2]Claim
	}
	keyOf := func(a Attempt) key { return key{a.Phase, a.At, [2]Claim(a.Claims)} }
	var events []Event
	for kind := PutInFlight; kind <= Unreserved; kind++ {
		for claim := range 2 {
			for _, list := range [][]int{nil, {claim}, {0, 1}} {
				for _, flag := range []bool{false, true} {
					events = append(events, Event{Kind: kind, Claim: claim, Lost: list, Broken: list, AtOnce: flag && list != nil, Cancelled: flag})
				}
			}
		}
	}
	seen := make(map[key]bool)
	var queue []Attempt
	for _, first := range []Claim{{}, {OfGroup: true}, {Takes: WholeClaim}} {
		queue = append(queue, Begin(first, Claim{}))
	}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		if seen[keyOf(from)] {
			continue
		}
		seen[keyOf(from)] = true
		for _, e := range events {
			to, actions := Step(from, e)
			visit(from, e, to, actions)
			queue = append(queue, to)
		}
	}
	require.Greater(t, len(seen), 100)
}

// TestEveryAttempt checks invariants that hold after any event, expected or not.
func TestEveryAttempt(t *testing.T) {
	t.Parallel()
	reach(t, func(from Attempt, e Event, to Attempt, actions []Action) {
		for i, action := range actions {
			if i < len(actions)-1 {
				require.Contains(t, []ActionKind{EndInFlight, ReleaseClaim, LeaveGroup, StayInGroup, TellConflict}, action.Kind,
					"only the last action has a result: %v, %s", from, e.Kind)
			}
		}
		for i := range to.Claims {
			was, is := from.Claims[i], to.Claims[i]
			if was.InFlight && !is.InFlight {
				require.Contains(t, actions, Action{Kind: EndInFlight, Claim: i}, "%v, %s", from, e.Kind)
			}
			if is.Phase == Sent {
				require.False(t, to.Phase == See || to.Phase == Bind, "every write is confirmed: %v, %s", from, e.Kind)
			}
			if to.Phase == Bind || to.Phase == Bound {
				require.Equal(t, Confirmed, is.Phase, "%v, %s", from, e.Kind)
				require.False(t, is.Lost, "%v, %s", from, e.Kind)
			}
			if e.Kind == Unreserved && to.Phase == Release && from.Phase != Release && (was.Phase != Untouched || was.InFlight) {
				require.True(t, mentions(actions, i), "claim %d is left behind: %v", i, from)
			}
		}
		if from.Phase != Bind {
			require.False(t, to.Phase == Bound && from.Phase != Bound)
		}
	})
}

func mentions(actions []Action, claim int) bool {
	for _, action := range actions {
		if action.Claim == claim {
			return true
		}
	}
	return false
}

// TestReleaseEnds: after any event, a claim that is not untouched has a next action, and its devices stay in flight
// until the server has answered.
func TestReleaseEnds(t *testing.T) {
	t.Parallel()
	for _, phase := range []ClaimPhase{Asking, FindingOut, Releasing} {
		for takes := Reservation; takes <= WholeClaim; takes++ {
			for event := InUse; event <= NotDone; event++ {
				before := Claim{Phase: phase, InFlight: true, Takes: takes}
				after, action := before.Step(event)
				if after.Phase == Untouched {
					require.Equal(t, EndInFlight, action)
					require.Equal(t, Done, event)
					require.NotEqual(t, Asking, phase, "nobody has asked the server")
				} else {
					require.True(t, after.InFlight)
				}
			}
		}
	}
}
