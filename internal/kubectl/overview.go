package kubectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// overviewOutput is the JSON of the overview.
type overviewOutput struct {
	metav1.TypeMeta      `json:",inline"`
	devicefacts.Overview `json:",inline"`
	// Held lists the pods that wait for which devices are held.
	Held     []heldOutput         `json:"held,omitempty"`
	Problems devicefacts.Problems `json:"problems"`
	Missing  []whatif.Missing     `json:"missing,omitempty"`
}

// addOverview makes the overview the default of the root command.
func addOverview(o *options, root *cobra.Command) {
	var node string
	root.Args = noCommand
	root.Flags().StringVar(&node, "node", "", "Show only the devices that this node can use")
	o.completes(root, "node", o.nodeNames)
	root.RunE = func(command *cobra.Command, _ []string) error { return o.overview(command.Context(), node) }
}

func (o *options) overview(ctx context.Context, node string) error {
	facts, err := o.facts(ctx)
	if err != nil {
		return err
	}
	if err := checkNode(facts, node); err != nil {
		return err
	}
	overview, problems := facts.Overview(node), facts.Problems()
	held := heldDevices(facts.Snapshot())
	if done, err := o.structured(overviewOutput{kindOf("Overview"), overview, held, problems, facts.Snapshot().Missing()}); done {
		return err
	}
	if len(overview.Drivers) == 0 {
		if facts.DevicesUnknown() {
			return o.devicesUnknown()
		}
		o.say("No devices: no driver has published a ResourceSlice%s.", onNode(node))
		return o.hintProblems(&problems)
	}
	byDriver, bars := make([][]devicefacts.Summary, len(overview.Drivers)), false
	for i := range overview.Drivers {
		for _, summary := range overview.Summaries {
			if summary.Driver == overview.Drivers[i].Name {
				byDriver[i] = append(byDriver[i], summary)
				bars = bars || len(summary.Units) > 0
			}
		}
	}
	limit := rowLimit(byDriver)
	for i := range overview.Drivers {
		if i > 0 {
			o.say("")
		}
		if err := o.printDriver(&overview.Drivers[i], byDriver[i], limit, node != "" || o.wide()); err != nil {
			return err
		}
	}
	if bars {
		o.say("\n%s", o.screen.Paint(screen.Faint, screen.Legend))
	}
	o.printPools(overview.Pools)
	o.printHeld(held)
	return o.hintProblems(&problems)
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " for node " + node
}

// checkNode fails for nodes that do not exist, if nodes could be read.
func checkNode(facts *devicefacts.Facts, node string) error {
	if node == "" || facts.Snapshot().Node(node) != nil {
		return nil
	}
	for _, missing := range facts.Snapshot().Missing() {
		if missing.Resource == "nodes" {
			return fmt.Errorf("the devices of node %s are not known without the right to list nodes; see kubectl devices clusterrole", node)
		}
	}
	return fmt.Errorf("there is no node %s; list the nodes with: kubectl get nodes", node)
}

// printDriver prints a summary line, and a line for each node or each group of nodes that look the same.
func (o *options) printDriver(driver *devicefacts.Driver, summaries []devicefacts.Summary, limit int, each bool) error {
	o.heading("%s: %s", driver.Name, inWords(driver))
	table := screen.Table{Indent: 2, Columns: []screen.Column{
		{Name: "NODE", Shrinks: !o.wide()}, {Name: "FREE", Right: true}, {Name: "ALLOCATED", Right: true}, {Name: "SHARED", Right: true},
		{Name: "TAINTED", Right: true}, {Name: "N/A", Right: true}, {Name: "USE"}, {Name: "LEFT", Shrinks: !o.wide()},
	}}
	rows, more := rowsOf(summaries, limit, each)
	for i := range rows {
		row := &rows[i]
		c := row.Counts
		bar := screen.Bar(cells(row.Units), o.barWidth(), o.screen)
		if row.varying {
			bar = screen.Cell{}
		}
		table.Row(screen.Cell{Text: row.label()}, freeOf(&c),
			count(c.Allocated, screen.Used), count(c.Shared, screen.Partly), count(c.Tainted, screen.Warn), count(c.Unavailable, screen.Bad),
			bar, screen.Cell{Text: o.left(row)})
	}
	if err := table.Write(o.Out, o.screen); err != nil {
		return err
	}
	if more > 0 {
		o.say("  … and %s in other states; -o wide shows each", plural(more, "place"))
	}
	return nil
}

// freeOf returns the cell with the number of free devices, "?" if that is unknown.
func freeOf(c *devicefacts.Counts) screen.Cell {
	if c.NotKnown > 0 {
		return screen.Cell{Text: fmt.Sprintf("? of %d", c.Devices), Style: screen.Faint}
	}
	return screen.Cell{Text: fmt.Sprintf("%d of %d", c.Free, c.Devices), Style: freeStyle(*c)}
}

func (o *options) barWidth() int {
	if o.wide() {
		return 32
	}
	return 16
}

// inWords summarizes a driver's devices in one line.
func inWords(d *devicefacts.Driver) string {
	text := plural(d.Devices, "device")
	if d.Nodes > 0 {
		text += " on " + plural(d.Nodes, "node")
	} else {
		text += " in " + plural(d.Pools, "pool")
	}
	var parts []string
	if d.Free > 0 || d.NotKnown == 0 {
		parts = append(parts, fmt.Sprintf("%d free", d.Free))
	}
	for _, part := range []struct {
		count int
		word  string
	}{{d.Allocated, "allocated"}, {d.Shared, "shared"}, {d.Tainted, "tainted"}, {d.Unavailable, "not available"}, {d.NotKnown, "not known to be free"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.word))
		}
	}
	return text + ", " + strings.Join(parts, ", ")
}

func count(n int, style screen.Style) screen.Cell {
	if n == 0 {
		return screen.Cell{}
	}
	return screen.Cell{Text: fmt.Sprint(n), Style: style}
}

func freeStyle(c devicefacts.Counts) screen.Style {
	if c.Free > 0 {
		return screen.Good
	}
	return screen.Plain
}

// cells returns the cells of a bar, one for each unit.
func cells(units []devicefacts.Unit) []screen.Fill {
	fills := make([]screen.Fill, len(units))
	for i := range units {
		fills[i] = fill(&units[i])
	}
	return fills
}

func fill(u *devicefacts.Unit) screen.Fill {
	switch u.State {
	case devicefacts.Allocated:
		return screen.Full
	case devicefacts.Shared:
		if u.Used >= 1 {
			return screen.Full
		}
		return screen.Part
	case devicefacts.Tainted:
		return screen.Tainted
	case devicefacts.Unavailable:
		return screen.Lost
	}
	return screen.Empty
}

// left returns what is left of the scarcest capacity or counter; with -o wide, of all.
func (o *options) left(row *row) string {
	var texts []string
	var least *devicefacts.Room
	for i := range row.Rooms {
		room := &row.Rooms[i]
		if least == nil || room.Used() > least.Used() {
			least = room
		}
		texts = append(texts, roomInWords(room))
	}
	if least == nil || row.varying {
		return ""
	}
	if o.wide() {
		return strings.Join(texts, ", ")
	}
	return roomInWords(least)
}

func roomInWords(r *devicefacts.Room) string {
	name := r.Name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	return fmt.Sprintf("%s %s of %s", name, r.Left.String(), r.Published.String())
}

// poolsShown bounds the incomplete pools that are named.
const poolsShown = 5

// printPools prints the incomplete pools, and why they are incomplete.
func (o *options) printPools(pools []devicefacts.Pool) {
	shown, more := 0, 0
	for i := range pools {
		pool := &pools[i]
		if pool.State == completeState {
			continue
		}
		if shown == poolsShown && !o.wide() {
			more++
			continue
		}
		if shown == 0 {
			o.say("")
			o.heading("Pools whose devices cannot be allocated:")
		}
		shown++
		o.say("  %s/%s is %s: %s", pool.Driver, pool.Name, o.screen.Paint(screen.Bad, pool.State), pool.Reason)
	}
	if more > 0 {
		o.say("  … and %s; -o wide shows each", plural(more, "more pool"))
	}
}

const completeState = "complete"

// hintProblems prints a hint if there are problems, and the command that lists them.
func (o *options) hintProblems(p *devicefacts.Problems) error {
	var found []string
	if n := len(p.Twice); n > 0 {
		found = append(found, plural(n, "device")+" held twice")
	}
	if n := len(p.Overdrawn); n > 0 {
		found = append(found, overdrafts(n))
	}
	if n := len(p.Unpublished); n > 0 {
		found = append(found, plural(n, "device")+" allocated that "+are(n)+" not published")
	}
	if n := len(p.Unused); n > 0 {
		found = append(found, plural(n, "claim")+" allocated that no pod uses")
	}
	if len(found) > 0 {
		o.say("\n%s (kubectl devices holders says which):", o.screen.Paint(screen.Warn, "To look at"))
		for _, text := range found {
			o.say("  %s", text)
		}
	}
	return nil
}

func overdrafts(n int) string {
	if n == 1 {
		return "1 counter or capacity overdrawn"
	}
	return fmt.Sprintf("%d counters or capacities overdrawn", n)
}
