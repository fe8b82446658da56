package explain

import (
	"fmt"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/report"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/words"
)

// shortage says why there are too few devices for a request. The zero value stands
// for enough.
type shortage struct {
	text string
	// general is the text without what is particular to an alternative.
	general string
	// lasting is set if there would be too few even if other claims had none.
	lasting bool
}

// slotShortage says why a request cannot be satisfied even if it is alone.
func (q inquiry) slotShortage(slot *task.Slot) shortage {
	if len(slot.Alternatives) == 1 && slot.Alternatives[0].Parent == "" {
		return q.shortage(slot.Alternatives[0])
	}
	lasting := true
	var generals []string
	byGeneral := make(map[string][]string) // names of alternatives
	only := make(map[string]string)
	for _, r := range slot.Alternatives {
		found := q.shortage(r)
		if found.text == "" {
			return shortage{}
		}
		if byGeneral[found.general] == nil {
			generals = append(generals, found.general)
		}
		byGeneral[found.general] = append(byGeneral[found.general], r.Name)
		only[found.general] = found.text
		lasting = lasting && found.lasting
	}
	for i, general := range generals {
		if names := byGeneral[general]; len(names) == 1 {
			generals[i] = names[0] + ": " + only[general]
		} else {
			generals[i] = words.Join(names) + ": " + general
		}
	}
	text := "no alternative fits (" + strings.Join(generals, "; ") + ")"
	return shortage{text, text, lasting}
}

// shortage says why there are too few devices for a request.
func (q inquiry) shortage(r *task.Request) shortage {
	t, wanted := q.tally(r), q.Wanted(r)
	lasting := func(text string) shortage { return shortage{text, text, true} }
	switch {
	case t.published == 0:
		return lasting("the node has no devices that can be used")
	case wanted > r.Claim.Most:
		return lasting(fmt.Sprintf("%d devices are wanted, but a claim can have at most %d", wanted, r.Claim.Most))
	case wanted <= 0 && !r.All():
		return shortage{}
	case t.match == 0:
		return lasting(t.noMatch(r))
	case r.All() && (t.free() < t.match || wanted == 0):
		return shortage{t.notAll(), t.notAll(), wanted == 0 || t.lasting() > 0}
	case t.match < wanted:
		return lasting(fmt.Sprintf("%s, %s", t.matches(), areWanted(wanted)))
	case t.free() == 0:
		return shortage{t.none(), "all devices that match " + t.words(several), t.match-t.lasting() < wanted}
	case t.free() < wanted:
		text := fmt.Sprintf("%s, but fewer than the %d wanted are free, the rest %s", t.matches(), wanted, t.words(several))
		return shortage{text, text, t.match-t.lasting() < wanted}
	}
	return shortage{}
}

// noMatch tells a class without devices from selectors that are too strict.
func (t *tally) noMatch(r *task.Request) string {
	switch {
	case t.elsewhere > 0:
		return "no device matches on this node: those that match are for other nodes"
	case t.ofClass > 0:
		return fmt.Sprintf("no device matches: there are some of class %s, but the selectors of the request rule them out", r.ClassName)
	}
	return "no device matches class " + r.ClassName
}

func (t *tally) matches() string { return words.Plural(t.match, "device matches", "devices match") }

// none says why no device is free.
func (t *tally) none() string {
	if t.match == 1 {
		return "the only device that matches " + t.words(1)
	}
	return fmt.Sprintf("all %d devices that match %s", t.match, t.words(t.match))
}

// notAll says why not all devices can be had.
func (t *tally) notAll() string {
	if t.match == 1 {
		return "all matching devices are wanted, but the only one " + t.words(1)
	}
	return fmt.Sprintf("all %d matching devices are wanted, but some %s", t.match, t.words(several))
}

// several stands for a number of devices other than one.
const several = 2

// words joins the causes, for a number of devices of which the reader knows.
func (t *tally) words(devices int) string {
	return t.wordsIf(func(report.Cause) bool { return true }, devices)
}

// wordsIf joins some of the causes.
func (t *tally) wordsIf(told func(report.Cause) bool, devices int) string {
	var parts []string
	for _, cause := range t.causes() {
		if told(cause) {
			parts = append(parts, report.Predicate(cause, devices, t.names[cause]))
		}
	}
	return strings.Join(parts, " or ")
}
