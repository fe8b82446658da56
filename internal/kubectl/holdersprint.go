package kubectl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
)

// printClaim prints the devices of a claim, and its consumers.
func (o *options) printClaim(c *devicefacts.Claim, indent int) error {
	margin := strings.Repeat(" ", indent)
	state := "not allocated"
	if c.Allocated {
		state = "allocated"
		if !c.Since.IsZero() {
			state += " " + o.age(c.Since) + " ago"
		}
	}
	if c.Deleting {
		state += ", is being deleted"
	}
	o.heading("%sClaim %s: %s", margin, c.Key(), state)
	if len(c.Devices) > 0 {
		table := screen.Table{Indent: indent + 2, Columns: []screen.Column{
			{Name: "REQUEST"}, {Name: "DEVICE", Shrinks: true}, {Name: "HOW"}, {Name: "CONSUMES", Shrinks: true},
		}}
		for i := range c.Devices {
			held := &c.Devices[i]
			table.Row(screen.Text(held.Request, held.DeviceID.String(), how(held), consumed(held.Consumed))...)
		}
		if err := table.Write(o.Out, o.screen); err != nil {
			return err
		}
	}
	for i := range c.Consumers {
		o.say("%s  reserved for %s", margin, consumerInWords(&c.Consumers[i]))
	}
	if c.Unused {
		o.say("%s  %s", margin, o.screen.Paint(screen.Warn, "no pod uses it"))
	}
	return nil
}

func how(held *devicefacts.Held) string {
	var words []string
	if held.AdminAccess {
		words = append(words, "admin access")
	}
	if held.ShareID != nil {
		words = append(words, "share")
	}
	if held.Unpublished {
		words = append(words, "not published")
	}
	return strings.Join(words, ", ")
}

func consumed(amounts map[resourceapi.QualifiedName]resource.Quantity) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		quantity := amounts[name]
		texts = append(texts, unqualified(string(name))+" "+quantity.String())
	}
	return strings.Join(texts, ", ")
}

func consumerInWords(c *devicefacts.Consumer) string {
	if c.Kind != "pods" {
		return c.Kind + " " + c.Name
	}
	switch {
	case c.Gone:
		return "pod " + c.Name + ", which does not exist any more"
	case c.Node != "":
		return joined("pod "+c.Name+" on "+c.Node, string(c.Phase))
	}
	return joined("pod "+c.Name, string(c.Phase))
}

// printDevice prints the holders of a device.
func (o *options) printDevice(d *devicefacts.Device) error {
	o.heading("Device %s: %s", d.DeviceID, joined(stateInWords(d), d.Why))
	o.say("  for %s, in slice %s", reachInWords(d.Reach), d.Slice)
	if len(d.PartitionOf) > 0 {
		o.say("  draws from %s", strings.Join(d.PartitionOf, ", "))
	}
	for i := range d.Rooms {
		room := &d.Rooms[i]
		o.say("  %s left", joinedBy(" ", room.Set, roomInWords(room)))
	}
	if len(d.Taints) > 0 {
		o.say("  taints: %s", taints(d.Taints))
	}
	if holders := o.shown(d.Holders); len(holders) > 0 {
		return o.printHoldersOf(holders, 2)
	} else if hidden := len(d.Holders); hidden > 0 {
		o.say("  held by %s in other namespaces", plural(hidden, "claim"))
	}
	return nil
}

func reachInWords(p devicefacts.Reach) string {
	switch {
	case p.Node != "":
		return "node " + p.Node
	case p.NodeSelector != "":
		return "nodes with " + p.NodeSelector
	}
	return p.String()
}

func joinedBy(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

func (o *options) printHoldersOf(holders []devicefacts.Holder, indent int) error {
	table := screen.Table{Indent: indent, Columns: []screen.Column{
		{Name: "CLAIM", Shrinks: true}, {Name: "HOW"}, {Name: "CONSUMES", Shrinks: true}, {Name: "AGE"}, {Name: "RESERVED FOR", Shrinks: true, Prose: true},
	}}
	for i := range holders {
		h := &holders[i]
		var users []string
		for j := range h.Consumers {
			users = append(users, consumerInWords(&h.Consumers[j]))
		}
		held := devicefacts.Held{AdminAccess: h.AdminAccess}
		if h.ShareID != "" {
			held.ShareID = &h.ShareID
		}
		table.Row(screen.Text(h.Claim, how(&held), consumed(h.Consumed), o.age(h.Since), cmp.Or(strings.Join(users, "; "), "nobody"))...)
	}
	return table.Write(o.Out, o.screen)
}

// allHolders prints the problems, and how much each namespace or claim holds.
func (o *options) allHolders(facts *devicefacts.Facts) error {
	problems := facts.Problems()
	only := o.onlyNamespace()
	keep := func(c *devicefacts.Claim) bool { return only == "" || c.Namespace == only }
	if only != "" {
		problems = inOneNamespace(problems, only)
	}
	held := slices.DeleteFunc(facts.Claims(), func(c devicefacts.Claim) bool { return !c.Allocated || !keep(&c) })
	if done, err := o.structured(holdersOutput{TypeMeta: kindOf("Holders"), Problems: &problems, Claims: held, Missing: facts.Snapshot().Missing()}); done {
		return err
	}
	if err := o.printProblems(&problems); err != nil {
		return err
	}
	if len(held) == 0 && only == "" && facts.UsageUnknown() {
		o.say("Who holds devices is not known: resourceclaims could not all be read.")
		return statusError{ExitCannotTell}
	}
	if len(held) == 0 {
		o.say("No claim is allocated%s.", inNamespace(only))
		return nil
	}
	if o.wide() {
		return o.printClaims(held)
	}
	return o.printNamespaces(held)
}

// inOneNamespace returns the problems of a namespace's claims, and those of pools.
func inOneNamespace(p devicefacts.Problems, namespace string) devicefacts.Problems {
	elsewhere := func(claim string) bool { return !strings.HasPrefix(claim, namespace+"/") }
	others := func(c devicefacts.Contested) bool {
		return !slices.ContainsFunc(c.Holders, func(h devicefacts.Holder) bool { return !elsewhere(h.Claim) })
	}
	p.Unused = slices.DeleteFunc(p.Unused, func(c devicefacts.Claim) bool { return c.Namespace != namespace })
	p.Twice, p.Unpublished = slices.DeleteFunc(p.Twice, others), slices.DeleteFunc(p.Unpublished, others)
	p.Overdrawn = slices.DeleteFunc(p.Overdrawn, func(d devicefacts.Overdraft) bool {
		return !slices.ContainsFunc(d.Claims, func(c string) bool { return !elsewhere(c) })
	})
	return p
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// printNamespaces prints sums by namespace. It counts each device once, and counts exclusive devices, shares and
// admin access separately.
func (o *options) printNamespaces(held []devicefacts.Claim) error {
	type sum struct {
		claims, unused         int
		devices, shared, admin map[devicefacts.DeviceID]bool
	}
	sums := make(map[string]*sum)
	for i := range held {
		s := sums[held[i].Namespace]
		if s == nil {
			s = &sum{devices: make(map[devicefacts.DeviceID]bool), shared: make(map[devicefacts.DeviceID]bool), admin: make(map[devicefacts.DeviceID]bool)}
			sums[held[i].Namespace] = s
		}
		s.claims++
		for j := range held[i].Devices {
			switch d := &held[i].Devices[j]; {
			case d.AdminAccess:
				s.admin[d.DeviceID] = true
			case d.ShareID != nil:
				s.shared[d.DeviceID] = true
			default:
				s.devices[d.DeviceID] = true
			}
		}
		if held[i].Unused {
			s.unused++
		}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(sums[b].devices), len(sums[a].devices)), cmp.Compare(len(sums[b].shared), len(sums[a].shared)), cmp.Compare(a, b))
	})
	o.heading("What claims hold, by namespace:")
	table := screen.Table{Indent: 2, Columns: []screen.Column{
		{Name: "NAMESPACE", Shrinks: true}, {Name: "CLAIMS", Right: true}, {Name: "DEVICES", Right: true}, {Name: "SHARED", Right: true},
		{Name: "ADMIN", Right: true}, {Name: "UNUSED", Right: true},
	}}
	more := 0
	for i, name := range names {
		if i == namespacesShown {
			more = len(names) - i
			break
		}
		s := sums[name]
		table.Row(screen.Cell{Text: name}, screen.Cell{Text: fmt.Sprint(s.claims)}, screen.Cell{Text: fmt.Sprint(len(s.devices))},
			count(len(s.shared), screen.Plain), count(len(s.admin), screen.Plain), count(s.unused, screen.Warn))
	}
	if err := table.Write(o.Out, o.screen); err != nil {
		return err
	}
	if more > 0 {
		o.say("  … and %s that hold less; -o wide shows each claim", plural(more, "namespace"))
	}
	return nil
}

// namespacesShown bounds the namespaces that are named; those that hold most come first.
const namespacesShown = 10

// printClaims prints a line for each claim.
func (o *options) printClaims(held []devicefacts.Claim) error {
	table := screen.Table{Columns: []screen.Column{{Name: "CLAIM"}, {Name: "DEVICES"}, {Name: "RESERVED FOR"}, {Name: "AGE"}}}
	for i := range held {
		var devices, users []string
		for j := range held[i].Devices {
			devices = append(devices, held[i].Devices[j].DeviceID.String())
		}
		for j := range held[i].Consumers {
			users = append(users, held[i].Consumers[j].Name)
		}
		table.Row(screen.Text(held[i].Key(), strings.Join(devices, ","), cmp.Or(strings.Join(users, ","), "nobody"), o.age(held[i].Since))...)
	}
	return table.Write(o.Out, o.screen)
}
