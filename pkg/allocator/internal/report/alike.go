package report

import (
	"fmt"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/words"
)

// Claims, requests and constraints of which the same is to be said are named together.

// alike are names with the text that is the same for all of them.
type alike struct {
	names []string
	text  string
}

// grouped joins the names of those with the same text, in the order of the first.
func grouped[T any](all []T, name func(*T) string, text func(*T) string) []alike {
	var groups []alike
	byText := make(map[string]int)
	for i := range all {
		one := text(&all[i])
		group, found := byText[one]
		if !found {
			group, byText[one] = len(groups), len(groups)
			groups = append(groups, alike{text: one})
		}
		groups[group].names = append(groups[group].names, name(&all[i]))
	}
	return groups
}

func (w *textWriter) claims(all []Claim) {
	name := func(c *Claim) string { return c.Claim }
	for _, group := range grouped(all, name, func(c *Claim) string {
		var own textWriter
		own.requests(c.Requests)
		own.constraints(c.Constraints)
		return own.String()
	}) {
		if len(group.names) == 1 {
			w.line(1, "claim %s", group.names[0])
		} else {
			w.line(1, "claims %s, each", words.Join(group.names))
		}
		w.WriteString(group.text)
	}
}

func (w *textWriter) requests(all []Request) {
	name := func(r *Request) string { return r.Request }
	for _, group := range grouped(all, name, func(r *Request) string {
		var own textWriter
		own.request(r)
		return r.asks() + "\n" + own.String()
	}) {
		each := ""
		if len(group.names) > 1 {
			each = ", each"
		}
		w.line(2, "%s%s: %s", words.Requests(group.names), each, strings.TrimSuffix(group.text, "\n"))
	}
}

func (w *textWriter) constraints(all []Constraint) {
	name := func(c *Constraint) string { return words.Requests(c.Requests) }
	for _, group := range grouped(all, name, func(c *Constraint) string {
		return fmt.Sprintf("%s %s\n%s wanted, %s", c.Kind, c.Attribute, words.Plural(c.Wanted, "device", "devices"), c.best())
	}) {
		constraint, text, _ := strings.Cut(group.text, "\n")
		more := ""
		if others := len(group.names) - 1; others > 0 {
			more = "; the same for " + words.Plural(others, "more constraint", "more constraints")
		}
		w.line(2, "%s of %s: %s%s", constraint, group.names[0], text, more)
	}
}
