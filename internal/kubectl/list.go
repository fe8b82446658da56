package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// listing holds the flags that select devices and columns.
type listing struct {
	node, class string
	// selector selects nodes by labels, and expression devices by CEL.
	selector, expression string
	free                 bool
	attributes           []string
	limit                int
}

// rowsOnTerminal is the default of --limit on a terminal.
const rowsOnTerminal = 200

// deviceList is the JSON of list.
type deviceList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []devicefacts.Device `json:"items"`
	Missing         []whatif.Missing     `json:"missing,omitempty"`
}

func newList(o *options) *cobra.Command {
	var l listing
	command := &cobra.Command{
		Use:   "list",
		Short: "List devices: their state, who holds them, and how much is left",
		Long: `List devices, one on each line: the state, the claim and the pod that hold it, and how much is left of what can be
shared.

States: Allocated (one claim holds the device), Shared (claims hold shares of it), Tainted (only requests with a
toleration get it), Unavailable (its node is cordoned, its pool is incomplete or invalid, or other partitions have
used up its counters), Free. LEFT is the capacity or counter with the least left. OF NODE lists the
CPU, memory and other resources of its node that a device takes.`,
		Example: `  # Free devices of a class on a node
  kubectl devices list --class gpu.example.com --node node-1 --free

  # Devices for the nodes of two zones, with attributes as columns
  kubectl devices list -l 'topology.kubernetes.io/zone in (a, b)' --attributes model,numa

  # Devices that match a CEL expression, as in a DeviceClass
  kubectl devices list --cel 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))'

  # Names of the free devices, or columns of your choice
  kubectl devices list --free -o name
  kubectl devices list -o custom-columns=DEVICE:.device,NODE:.node,STATE:.state`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if !command.Flags().Changed("limit") && o.screen.Terminal && o.output == "" {
				l.limit = rowsOnTerminal
			}
			return o.list(command.Context(), &l)
		},
	}
	flags := command.Flags()
	flags.StringVar(&l.node, "node", "", "Only devices that this node can use")
	flags.StringVarP(&l.selector, "selector", "l", "", "Only devices that nodes with these labels can use: a label selector, such as zone=a,!spot")
	flags.StringVar(&l.class, "class", "", "Only devices in this DeviceClass")
	flags.StringVar(&l.expression, "cel", "", "Only devices for which this CEL expression is true")
	flags.BoolVar(&l.free, "free", false, "Only devices that are free or have a free share")
	flags.StringSliceVar(&l.attributes, "attributes", nil, "Attributes or capacities to show as columns, with or without their domain")
	flags.IntVar(&l.limit, "limit", 0, fmt.Sprintf("The largest number of devices to show; 0 shows all (default %d on a terminal)", rowsOnTerminal))
	o.completes(command, "node", o.nodeNames)
	o.completes(command, "class", o.classNames)
	o.completes(command, "attributes", o.attributeNames)
	return command
}

func (o *options) list(ctx context.Context, l *listing) error {
	facts, err := o.facts(ctx)
	if err != nil {
		return err
	}
	devices, err := l.selected(ctx, facts)
	if err != nil {
		return err
	}
	slices.SortStableFunc(devices, devicefacts.ByPool)
	for i := range devices {
		devices[i].Holders = o.shown(devices[i].Holders)
	}
	if done, err := o.structured(deviceList{kindOf("DeviceList"), devices, facts.Snapshot().Missing()}); done {
		return err
	}
	if len(devices) == 0 {
		if facts.DevicesUnknown() {
			return o.devicesUnknown()
		}
		fmt.Fprintln(o.ErrOut, "No devices found.")
		return nil
	}
	total := len(devices)
	if l.limit > 0 && total > l.limit {
		devices = devices[:l.limit]
	}
	if err := o.printDevices(devices, l.attributes); err != nil {
		return err
	}
	if total > len(devices) {
		fmt.Fprintf(o.ErrOut, "%d of %s are shown. Show all with --limit 0, or fewer with --node, --selector, --class, --cel or --free.\n", len(devices), plural(total, "device"))
	}
	return nil
}

// shown returns the holders in the selected namespaces; the caller mentions that others exist.
func (o *options) shown(holders []devicefacts.Holder) []devicefacts.Holder {
	only := o.onlyNamespace()
	if only == "" {
		return holders
	}
	var shown []devicefacts.Holder
	for _, holder := range holders {
		if namespace, _, _ := strings.Cut(holder.Claim, "/"); namespace == only {
			shown = append(shown, holder)
		}
	}
	return shown
}

// selected returns the devices that the flags select.
func (l *listing) selected(ctx context.Context, facts *devicefacts.Facts) ([]devicefacts.Device, error) {
	if err := checkNode(facts, l.node); err != nil {
		return nil, err
	}
	onNodes, err := l.nodeLabels(facts)
	if err != nil {
		return nil, err
	}
	var class *resourceapi.DeviceClass
	if l.class != "" {
		if class = facts.Snapshot().Class(l.class); class == nil {
			return nil, fmt.Errorf("there is no DeviceClass %s, or you may not read it; list those that exist with: kubectl get deviceclasses", l.class)
		}
	}
	devices, failed, err := facts.Select(ctx, devicefacts.Selection{Node: l.node, Labels: onNodes, Class: class, Expression: l.expression})
	switch {
	case err != nil:
		return nil, err
	case len(devices) == 0 && failed != nil:
		return nil, fmt.Errorf("the expression cannot be evaluated: %w", failed)
	}
	if l.free {
		devices = slices.DeleteFunc(devices, func(d devicefacts.Device) bool { return !d.HasRoom() })
	}
	if err := l.checkAttributes(devices); err != nil {
		return nil, err
	}
	return devices, nil
}

// nodeLabels parses --selector; nil selects all nodes.
func (l *listing) nodeLabels(facts *devicefacts.Facts) (labels.Selector, error) {
	if l.selector == "" {
		return nil, nil
	}
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector %q is not a label selector: %w; use --cel for a CEL expression about devices", l.selector, err)
	}
	for _, missing := range facts.Snapshot().Missing() {
		if missing.Resource == "nodes" {
			return nil, errors.New("the labels of nodes are not known without the right to list nodes; leave --selector out, or see kubectl devices clusterrole")
		}
	}
	return selector, nil
}

// names returns the devices as other commands take them.
func (l deviceList) names() []string { return deviceNames(l.Items) }

func deviceNames(devices []devicefacts.Device) []string {
	names := make([]string, 0, len(devices))
	for i := range devices {
		names = append(names, "device/"+devices[i].DeviceID.String())
	}
	return names
}

// checkAttributes fails for attributes that no device has, because they are probably misspelled.
func (l *listing) checkAttributes(devices []devicefacts.Device) error {
	for _, name := range l.attributes {
		if len(devices) > 0 && !slices.ContainsFunc(devices, func(d devicefacts.Device) bool { return attribute(&d, name) != "" }) {
			return errors.New("none of the devices has an attribute or a capacity " + name)
		}
	}
	return nil
}

// printDevices prints a line for each device, under a line for its driver if there are several.
func (o *options) printDevices(devices []devicefacts.Device, attributes []string) error {
	for start := 0; start < len(devices); {
		end := start
		for end < len(devices) && devices[end].Driver == devices[start].Driver {
			end++
		}
		indent := 0
		if end-start < len(devices) {
			if indent = 2; start > 0 {
				o.say("")
			}
			o.heading("%s:", devices[start].Driver)
		}
		ofNode := slices.ContainsFunc(devices[start:end], func(d devicefacts.Device) bool { return len(d.OfNode) > 0 })
		table := o.deviceTable(attributes, ofNode)
		table.Indent = indent
		nodes := o.wide() || slices.ContainsFunc(devices[start:end], func(d devicefacts.Device) bool { return d.Reach.String() != d.Pool })
		for i := start; i < end; i++ {
			table.Row(o.deviceRow(&devices[i], attributes, nodes, ofNode)...)
		}
		if err := table.Write(o.Out, o.screen); err != nil {
			return err
		}
		start = end
	}
	return nil
}

func (o *options) deviceTable(attributes []string, ofNode bool) *screen.Table {
	shrinks := !o.wide()
	table := &screen.Table{Columns: []screen.Column{
		{Name: "DEVICE", Shrinks: shrinks, Last: true}, {Name: "NODE", Shrinks: shrinks}, {Name: "STATE"}, {Name: "CLAIM", Shrinks: shrinks},
		{Name: "POD", Shrinks: shrinks}, {Name: "AGE"}, {Name: "LEFT", Shrinks: shrinks},
	}}
	if ofNode {
		table.Columns = append(table.Columns, screen.Column{Name: "OF NODE", Shrinks: shrinks})
	}
	for _, name := range attributes {
		table.Columns = append(table.Columns, screen.Column{Name: strings.ToUpper(unqualified(name)), Shrinks: shrinks})
	}
	if o.wide() {
		table.Columns = append(table.Columns, screen.Column{Name: "TAINTS"}, screen.Column{Name: "WHY"})
	}
	return table
}

func (o *options) deviceRow(d *devicefacts.Device, attributes []string, node, ofNode bool) []screen.Cell {
	row := screen.Text(d.Pool+"/"+d.DeviceID.Device, "", "", o.first(o.claims(d.Holders)), o.first(pods(d.Holders)), "", "")
	if node {
		row[1].Text = d.Reach.String()
	}
	row[2] = screen.Cell{Text: stateInWords(d), Style: stateStyles[d.State]}
	row[6].Text = o.roomOf(d)
	if len(d.Holders) > 0 {
		row[5].Text = o.age(d.Holders[0].Since)
	}
	if ofNode {
		row = append(row, screen.Cell{Text: o.first(takings(d))})
	}
	for _, name := range attributes {
		row = append(row, screen.Cell{Text: attribute(d, name)})
	}
	if o.wide() {
		row = append(row, screen.Text(taints(d.Taints), d.Why)...)
	}
	return row
}

var stateStyles = map[devicefacts.State]screen.Style{
	devicefacts.Free: screen.Good, devicefacts.Allocated: screen.Used, devicefacts.Shared: screen.Partly,
	devicefacts.Tainted: screen.Warn, devicefacts.Unavailable: screen.Bad, devicefacts.NotKnown: screen.Faint,
}

// stateInWords returns the state, and adds whether the device is tainted or its node is cordoned.
func stateInWords(d *devicefacts.Device) string {
	text := string(d.State)
	if d.State != devicefacts.Tainted && d.Tainted() {
		text += ",tainted"
	}
	if d.Cordoned {
		text += ",cordoned"
	}
	return text
}

// roomOf returns what is left of the scarcest capacity or counter of a device; with -o wide, of all.
func (o *options) roomOf(d *devicefacts.Device) string {
	if scarcest := d.Scarcest(); scarcest != nil && !o.wide() {
		return unqualified(scarcest.Name) + " " + scarcest.Left.String()
	}
	var texts []string
	for i := range d.Rooms {
		texts = append(texts, roomInWords(&d.Rooms[i]))
	}
	return strings.Join(texts, ", ")
}

// takings returns the amounts of resources of its node that a device takes.
func takings(d *devicefacts.Device) (texts []string) {
	for _, taking := range devicefacts.OfNode(d.Published().Device) {
		texts = append(texts, string(taking.Resource)+" "+taking.Amount)
	}
	return texts
}

// first returns the first name and the number of others; with -o wide, all names.
func (o *options) first(names []string) string {
	if len(names) > 1 && !o.wide() {
		return fmt.Sprintf("%s +%d", names[0], len(names)-1)
	}
	return strings.Join(names, ",")
}

// claims names the claims that hold a device, without the namespace if only one is shown.
func (o *options) claims(holders []devicefacts.Holder) []string {
	var names []string
	for i := range holders {
		name := holders[i].Claim
		if only := o.onlyNamespace(); only != "" {
			name = strings.TrimPrefix(name, only+"/")
		}
		if holders[i].AdminAccess {
			name += "(admin)"
		}
		if !slices.Contains(names, name) { // A claim may have several shares.
			names = append(names, name)
		}
	}
	return names
}

// pods names the consumers of the holders' claims. A consumer is in the namespace of its claim.
func pods(holders []devicefacts.Holder) []string {
	var names []string
	for i := range holders {
		for j := range holders[i].Consumers {
			if name := holders[i].Consumers[j].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func taints(list []resourceapi.DeviceTaint) string {
	var texts []string
	for i := range list {
		text := list[i].Key
		if list[i].Value != "" {
			text += "=" + list[i].Value
		}
		texts = append(texts, text+":"+string(list[i].Effect))
	}
	return strings.Join(texts, ",")
}

// attribute returns the value of an attribute or else of a capacity, "" if there is none. A name without domain
// stands for the driver's own attribute, or else for that of any domain.
func attribute(d *devicefacts.Device, name string) string {
	for _, key := range []string{name, d.Driver + "/" + name, strings.TrimPrefix(name, d.Driver+"/")} {
		if value, found := d.Attributes[resourceapi.QualifiedName(key)]; found {
			return devicefacts.AttributeText(value, ",")
		}
		if value, found := d.Capacities[resourceapi.QualifiedName(key)]; found {
			return value.String()
		}
	}
	if !strings.Contains(name, "/") {
		for key, value := range d.Attributes {
			if unqualified(string(key)) == name {
				return devicefacts.AttributeText(value, ",")
			}
		}
	}
	return ""
}

func unqualified(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
