package explain

import (
	"fmt"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// shortage describes why there are too few devices for a request. The zero value means that there are enough.
type shortage struct {
	text string
	// lasting is set if there would be too few even if other claims had no devices.
	lasting bool
	// fails is set if selectors fail on so many devices that there might be enough otherwise.
	fails bool
}

// slotShortage returns the reason why a request cannot be satisfied even alone.
func (q inquiry) slotShortage(slot *task.Slot) shortage {
	if len(slot.Alternatives) == 1 && slot.Alternatives[0].Parent == "" {
		return q.shortage(slot.Alternatives[0])
	}
	all := shortage{lasting: true}
	var texts []string
	names := make(map[string][]string) // of alternatives, by text
	for _, r := range slot.Alternatives {
		found := q.shortage(r)
		if found.text == "" {
			return shortage{}
		}
		if names[found.text] == nil {
			texts = append(texts, found.text)
		}
		names[found.text] = append(names[found.text], r.Name)
		all.lasting, all.fails = all.lasting && found.lasting, all.fails || found.fails
	}
	all.text = "no alternative fits"
	for _, text := range texts {
		all.text += fmt.Sprintf(" [%s: %s]", search.Join(names[text]), text)
	}
	return all
}

// shortage returns the reason why there are too few devices for a request: the numbers requested and
// matching, and the causes against the matching devices.
func (q inquiry) shortage(r *task.Request) shortage {
	t, wanted := q.tally(r), q.Wanted(r)
	found := shortage{lasting: t.match-t.lasting() < wanted}
	switch {
	case t.published == 0:
		return shortage{text: "the node has no devices that can be used", lasting: true}
	case wanted > r.Claim.Most:
		return shortage{text: fmt.Sprintf("%d devices asked for but a claim can have at most %d", wanted, r.Claim.Most), lasting: true}
	case wanted <= 0 && !r.All():
		return shortage{}
	case t.match == 0 && t.failure != nil:
	case t.match == 0:
		return shortage{text: t.noMatch(r), lasting: true}
	case r.All() && (t.free() < t.match || wanted == 0):
		return shortage{text: t.numbers("all", true), lasting: wanted == 0 || t.lasting() > 0}
	case t.free() >= wanted:
		return shortage{}
	default:
		found.text = t.numbers(fmt.Sprint(wanted), t.match >= wanted)
	}
	if t.failure != nil && t.match-t.lasting() < wanted {
		// It is unknown whether the devices with failures would match.
		return shortage{text: t.failureText(found.text), lasting: true, fails: true}
	}
	return found
}

// noMatch distinguishes a class without devices from selectors that are too strict.
func (t *tally) noMatch(r *task.Request) string {
	switch {
	case t.elsewhere > 0:
		return "no device matches on this node: those that match are for other nodes"
	case t.ofClass > 0:
		return fmt.Sprintf("no device matches: %d of class %s but the selectors of the request rule them out", t.ofClass, r.ClassName)
	}
	return "no device matches class " + r.ClassName
}

func (t *tally) matches() string { return search.Plural(t.match, "device matches", "devices match") }

// numbers describes the numbers of matching and requested devices and, with rest, the number of free devices
// and the causes against the others.
func (t *tally) numbers(asked string, rest bool) string {
	text := fmt.Sprintf("%s: %s asked", t.matches(), asked)
	if !rest {
		return text
	}
	return fmt.Sprintf("%s; %d free; %s", text, t.free(), t.words())
}

// failureText describes the failing selector and the number of devices.
func (t *tally) failureText(others string) string {
	text := strings.TrimPrefix(t.failure.OnDevice(), t.failure.Request+" ")
	if t.failed > 1 {
		text += fmt.Sprintf(" (and on %d more)", t.failed-1)
	}
	if others != "" {
		text += "; of the others " + others
	}
	return text
}

// words joins the causes, each with the number of its devices.
func (t *tally) words() string {
	var parts []string
	for _, cause := range t.causes() {
		parts = append(parts, fmt.Sprintf("%d %s", t.counts[cause], Predicate(cause, t.counts[cause], t.told(cause))))
	}
	return strings.Join(parts, "; ")
}

// rest joins some of the causes without numbers. It is for several requests, where a device counts once for each.
func (t *tally) rest(told func(Cause) bool) string {
	const several = 2
	var parts []string
	for _, cause := range t.causes() {
		if told(cause) {
			parts = append(parts, Predicate(cause, several, t.told(cause)))
		}
	}
	return strings.Join(parts, " or ")
}
