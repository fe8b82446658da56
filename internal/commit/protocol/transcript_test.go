package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apimachinery/pkg/types"
)

// TestTranscripts tells the protocol as stories (testdata). With -rewrite, the output is
// written as it is now. The commands:
//
//	begin POD claims=(a,b) [of-group=(a)] [made=(b)]
//	    An attempt for a pod; of-group are claims reserved for its PodGroup, made those that
//	    are made for the pod alone.
//	step POD EVENT... [claim=a] [lost=(a,b)] [at-once] [broken=(a)] [cancelled]
//	    What happened; several events in a row take no more arguments.
//	release POD CLAIM EVENT...
//	    What happened to one claim of a failed attempt.
//	join GROUP-CLAIM POD / leave GROUP-CLAIM POD / stay GROUP-CLAIM POD
//	    What a pod does with a claim of its group.
//
// Events have hyphens for blanks.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{attempts: make(map[string]*named), groups: make(map[string]*Group)}
		datadriven.RunTest(t, path, s.run)
	})
}

// story is the state that the commands of a transcript change.
type story struct {
	attempts map[string]*named
	groups   map[string]*Group
	out      strings.Builder
}

// named is an attempt with the names of its claims.
type named struct {
	Attempt
	claims []string
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	var words []string
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 && arg.Key != "at-once" && arg.Key != "cancelled" {
			words = append(words, arg.Key)
		}
	}
	switch d.Cmd {
	case "begin":
		s.begin(d, words[0])
	case "step":
		for _, kind := range words[1:] {
			s.step(d, words[0], kind)
		}
	case "release":
		s.release(d, words[0], words[1], words[2:])
	case "join", "leave", "stay":
		s.group(words[0], words[1], d.Cmd)
	default:
		d.Fatalf(t, "there is no command %q", d.Cmd)
	}
	return s.out.String()
}

func (s *story) begin(d *datadriven.TestData, pod string) {
	a := &named{claims: valuesOf(d, "claims")}
	claims := make([]Claim, len(a.claims))
	for i, name := range a.claims {
		claims[i].OfGroup = slices.Contains(valuesOf(d, "of-group"), name)
		if slices.Contains(valuesOf(d, "made"), name) {
			claims[i].Takes = WholeClaim
		}
	}
	a.Attempt = Begin(claims...)
	s.attempts[pod] = a
	s.tell(pod, nil)
}

func (s *story) step(d *datadriven.TestData, pod, kind string) {
	a := s.attempts[pod]
	event := Event{Kind: parse[EventKind](kind, Unreserved), AtOnce: d.HasArg("at-once"), Cancelled: d.HasArg("cancelled")}
	if named := a.positions(valuesOf(d, "claim")); len(named) > 0 {
		event.Claim = named[0]
	}
	event.Lost, event.Broken = a.positions(valuesOf(d, "lost")), a.positions(valuesOf(d, "broken"))
	var actions []Action
	a.Attempt, actions = Step(a.Attempt, event)
	s.tell(pod, actions)
}

func (s *story) release(d *datadriven.TestData, pod, claim string, events []string) {
	a := s.attempts[pod]
	state := &a.Claims[a.positions([]string{claim})[0]]
	for _, event := range events {
		var action ActionKind
		*state, action = state.Step(parse[ClaimEvent](event, NotDone))
		fmt.Fprintf(&s.out, "%s: %s\n", claim, describeClaim(*state))
		if action != NoAction {
			fmt.Fprintf(&s.out, "  -> %s\n", action)
		}
	}
}

func (s *story) group(claim, pod, what string) {
	g := s.groups[claim]
	if g == nil {
		g = &Group{}
		s.groups[claim] = g
	}
	uid := types.UID(pod)
	if what == "join" {
		fmt.Fprintf(&s.out, "joined: %t\n", g.Join(uid))
	} else {
		a := s.attempts[pod]
		state := &a.Claims[a.positions([]string{claim})[0]]
		if what == "stay" {
			g.Bound(uid, *state)
		} else {
			*state = g.Leave(uid, *state)
			fmt.Fprintf(&s.out, "%s has to release: %s\n", pod, describeClaim(*state))
		}
	}
	fmt.Fprintf(&s.out, "group: %d users, written: %s, releasing: %t, over: %t\n", g.Users.Len(), describeClaim(g.Written), g.Releasing, g.Over())
}

// tell prints the attempt's state and the actions to carry out.
func (s *story) tell(pod string, actions []Action) {
	a := s.attempts[pod]
	fmt.Fprintf(&s.out, "%s: %s\n", pod, a.Phase)
	for i, claim := range a.Claims {
		fmt.Fprintf(&s.out, "  %s: %s\n", a.claims[i], describeClaim(claim))
	}
	for _, action := range actions {
		fmt.Fprintf(&s.out, "  -> %s", action.Kind)
		switch action.Kind {
		case WriteClaim, YieldClaim, EndInFlight, ReleaseClaim, LeaveGroup, StayInGroup:
			fmt.Fprintf(&s.out, " %s", a.claims[action.Claim])
		}
		if action.Background {
			s.out.WriteString(" in the background")
		}
		s.out.WriteString("\n")
	}
}

func describeClaim(c Claim) string {
	text := c.Phase.String()
	if c.InFlight {
		text += ", in flight"
	}
	if c.Lost {
		text += ", has lost"
	}
	if c.OfGroup {
		text += ", of the group"
	}
	if c.Phase != Untouched {
		text += ", takes " + c.Takes.String()
	}
	return text
}

func (a *named) positions(names []string) (positions []int) {
	for _, name := range names {
		positions = append(positions, slices.Index(a.claims, name))
	}
	return positions
}

func valuesOf(d *datadriven.TestData, key string) []string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

// parse returns the value with a name, among the values up to the last one.
func parse[T interface {
	~uint8
	fmt.Stringer
}](name string, last T) T {
	for value := T(0); value <= last; value++ {
		if strings.ReplaceAll(value.String(), " ", "-") == name {
			return value
		}
	}
	panic("there is no event " + name)
}
