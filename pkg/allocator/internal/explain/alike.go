package explain

import (
	"fmt"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
)

// Claims, requests and constraints with the same text are named together.

// alike holds the names that share a text.
type alike struct {
	names []string
	text  string
}

// sameText groups items by text, in the order of their first occurrence.
func sameText[T any](all []T, name func(*T) string, text func(*T) string) []alike {
	var result []alike
	byText := make(map[string]int)
	for i := range all {
		one := text(&all[i])
		at, found := byText[one]
		if !found {
			at, byText[one] = len(result), len(result)
			result = append(result, alike{text: one})
		}
		result[at].names = append(result[at].names, name(&all[i]))
	}
	return result
}

func (w *textWriter) claims(all []Claim) {
	name := func(c *Claim) string { return c.Claim }
	for _, same := range sameText(all, name, func(c *Claim) string {
		var own textWriter
		own.requests(c.Requests)
		own.constraints(c.Constraints)
		return own.String()
	}) {
		if len(same.names) == 1 {
			w.line(1, "claim %s", same.names[0])
		} else {
			w.line(1, "claims %s, each", search.Join(same.names))
		}
		w.WriteString(same.text)
	}
}

func (w *textWriter) requests(all []Request) {
	name := func(r *Request) string { return r.Request }
	for _, same := range sameText(all, name, func(r *Request) string {
		var own textWriter
		own.request(r)
		return r.asks() + "\n" + own.String()
	}) {
		each := ""
		if len(same.names) > 1 {
			each = ", each"
		}
		w.line(2, "%s%s: %s", search.Requests(same.names), each, strings.TrimSuffix(same.text, "\n"))
	}
}

func (w *textWriter) constraints(all []Constraint) {
	name := func(c *Constraint) string { return search.Requests(c.Requests) }
	for _, same := range sameText(all, name, func(c *Constraint) string {
		return fmt.Sprintf("%s %s\n%s wanted, %s", c.Kind, c.Attribute, search.Plural(c.Wanted, "device", "devices"), c.best())
	}) {
		constraint, text, _ := strings.Cut(same.text, "\n")
		more := ""
		if others := len(same.names) - 1; others > 0 {
			more = "; the same for " + search.Plural(others, "more constraint", "more constraints")
		}
		w.line(2, "%s of %s: %s%s", constraint, same.names[0], text, more)
	}
}
