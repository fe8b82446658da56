package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// listedAtMost limits the claims, taints, counters and so on in a text. The Explanation has all of them.
const listedAtMost = 5

// String returns the explanation as a text of several lines, without a final line break.
func (e *Explanation) String() string {
	if e == nil {
		return ""
	}
	w := &textWriter{}
	w.line(0, "node %s: %s", e.Node, e.Reason)
	w.claims(e.Claims)
	for _, pool := range e.LeftOut {
		w.line(1, "pool %s is left out, it is %s: %s", pool.ID, pool.State, pool.Reason)
	}
	if e.Together != "" {
		w.line(1, "%s", e.Together)
	}
	if e.GaveUp {
		w.line(1, "%s tried, then the budget was used up", search.Plural(e.Steps-1, "device was", "devices were"))
	}
	return strings.TrimSuffix(w.String(), "\n")
}

// textWriter writes indented lines.
type textWriter struct{ strings.Builder }

func (w *textWriter) line(depth int, format string, args ...any) {
	w.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(w, format, args...)
	w.WriteString("\n")
}

func (w *textWriter) request(r *Request) {
	w.line(3, "%s published for the node, %d of the class, %d matching, %d available%s",
		search.Plural(r.Published, "device", "devices"), r.OfClass, r.Matching, r.Available, r.verdict())
	for i := range r.Obstacles {
		w.obstacle(&r.Obstacles[i])
	}
	for _, failing := range r.Failing {
		text, _, _ := strings.Cut(failing.Text, "\n") // The further lines point into the expression.
		w.line(3, "%s on which a selector fails: %s", search.Plural(failing.Devices, "device", "devices"), text)
		w.line(4, "%s%s", selector.Place(failing.Device, failing.Slice), andMore(failing.Devices-1))
	}
	if len(r.Contended) > 0 {
		w.line(3, "not all of those available together: %s", contended(r.Contended))
	}
}

func andMore(devices int) string {
	if devices == 0 {
		return ""
	}
	return " and " + search.Plural(devices, "more", "more")
}

// verdict says whether there are enough available devices.
func (r *Request) verdict() string {
	switch missing := r.Wanted - r.Available; {
	case r.Shortage == "":
		return ""
	case missing > 0:
		return fmt.Sprintf(": %d too few", missing)
	default:
		return ": " + r.Shortage
	}
}

// asks describes the devices that the request wants.
func (r *Request) asks() string {
	text := search.Plural(r.Wanted, "device", "devices")
	if r.All {
		text = fmt.Sprintf("all devices (%d)", r.Wanted)
	}
	text += " of class " + r.Class
	if r.Admin {
		text += " with admin access"
	}
	return text
}

func (w *textWriter) obstacle(o *Obstacle) {
	text := fmt.Sprintf("%d %s", o.Devices, Predicate(o.Cause, o.Devices, nil))
	if len(o.CounterSets) > 0 {
		w.line(3, "%s", text)
		w.counterSets(o.CounterSets)
		return
	}
	separator := ": "
	if len(o.Details) > 0 && o.Details[0].Shortfall == nil {
		text += ": " + listed(o.Details, "more", func(d Detail) string { return d.text(o.Devices) })
	}
	if len(o.Details) > 0 {
		separator = "; in use by "
	}
	// Claims without names would only repeat the cause.
	if slices.ContainsFunc(o.Claims, Holder.named) {
		text += separator + listed(o.Claims, "more claims", Holder.text)
	}
	w.line(3, "%s", text)
	w.shortfalls(o)
}

// text returns the name, with the number of devices if that differs from the obstacle's.
func (d Detail) text(all int) string {
	if d.Devices == all {
		return d.Name
	}
	return fmt.Sprintf("%s (%d)", d.Name, d.Devices)
}

func (h Holder) named() bool { return h.Claim != ledger.ClaimRef{} }

func (h Holder) text() string {
	if !h.named() {
		return fmt.Sprintf("other claims (%d)", h.Devices)
	}
	return fmt.Sprintf("%s (%d)", h.Claim, h.Devices)
}

// listed joins the first texts and the number of those left out.
func listed[T any](all []T, more string, text func(T) string) string {
	var parts []string
	for _, one := range all[:min(len(all), listedAtMost)] {
		parts = append(parts, text(one))
	}
	joined := strings.Join(parts, ", ")
	if n := len(all) - listedAtMost; n > 0 {
		joined += fmt.Sprintf(" and %d %s", n, more)
	}
	return joined
}

// best describes the best case of the constraint.
func (c *Constraint) best() string {
	if len(c.Lacking) > 0 {
		return c.lacking()
	}
	text := fmt.Sprintf("at best %d available", c.Best)
	if c.Kind == "distinctAttribute" {
		text = fmt.Sprintf("at best %d available with different values", c.Best)
	}
	if c.Value != "" {
		text += " with value " + c.Value
	}
	if c.Possible != c.Best {
		text += fmt.Sprintf(", %d if other claims had none", c.Possible)
	}
	return text + c.lists()
}

// lacking describes the requests for which no value has enough devices.
func (c *Constraint) lacking() string {
	text := listed(c.Lacking, "more requests", func(l LackingRequest) string {
		return fmt.Sprintf("too few for %s with %s", l.Request, search.Join(l.Values))
	})
	text = "no value has enough available for each: " + text
	if c.PossiblyEnough {
		text += "; if other claims had none, " + c.PossibleValue + " would have enough"
	}
	return text + c.lists()
}

func (c *Constraint) lists() string {
	if c.Lists == 0 {
		return ""
	}
	_, id, _ := strings.Cut(c.Attribute, "/")
	return "; " + HaveLists(c.Lists, id)
}

// HaveLists describes devices whose value of an attribute is an unsupported list.
func HaveLists(devices int, attribute string) string {
	verb := "have"
	if devices == 1 {
		verb = "has"
	}
	return fmt.Sprintf("%d %s a list as %s (that needs DRAListTypeAttributes)", devices, verb, attribute)
}
