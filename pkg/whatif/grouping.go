package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// grouping groups nodes by obstacle.
type grouping struct {
	groups []Group
	// at maps a reason to its group. shortest holds, for a shortage of a resource, the node of the
	// group with most left.
	at       map[string]int
	shortest []*nodeShortfall
}

// nodeShortfall is the shortage of a resource on a node.
type nodeShortfall struct {
	node string
	shortfall
}

// add adds a node to the group of its obstacle, and returns the group.
func (g *grouping) add(found *obstacle, node string) *Group {
	at, known := g.at[found.reason]
	if !known {
		at = len(g.groups)
		g.at[found.reason] = at
		g.groups, g.shortest = append(g.groups, Group{Kind: found.kind, Reason: found.reason}), append(g.shortest, nil)
	}
	if known := g.shortest[at]; found.short != nil && (known == nil || found.short.free > known.free) {
		g.shortest[at] = &nodeShortfall{node: node, shortfall: *found.short}
	}
	group := &g.groups[at]
	group.Nodes = append(group.Nodes, node)
	return group
}

// sorted returns the groups, largest first. Those for a shortage of a resource say how much is
// left.
func (g *grouping) sorted() []Group {
	for i := range g.groups {
		group := &g.groups[i]
		slices.Sort(group.Nodes)
		if short := g.shortest[i]; short != nil && len(group.Nodes) == 1 {
			group.Reason = short.on("")
		} else if short != nil {
			group.Reason = short.on(short.node)
		}
	}
	slices.SortStableFunc(g.groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Reason, b.Reason))
	})
	return g.groups
}

// shortfall is the shortage of a resource other than devices on a node, in thousandths for CPU.
type shortfall struct {
	resource           v1.ResourceName
	asked, free, there int64
	// byDevices is the part of asked that devices take of the node.
	byDevices int64
	devices   []string
}

// on describes the shortage with its amounts. node, if set, is the node of several with most free.
func (s *shortfall) on(node string) string {
	by := ""
	if s.byDevices > 0 && len(s.devices) > 0 {
		if by = fmt.Sprintf(" (%s by device %s", s.amount(s.byDevices), s.devices[0]); len(s.devices) > 1 {
			by += fmt.Sprintf(" and %d more", len(s.devices)-1)
		}
		by += ")"
	}
	text := fmt.Sprintf("too little %s is left: %s asked%s, %s of %s free", s.resource, s.amount(s.asked), by, s.amount(max(0, s.free)), s.amount(s.there))
	if node != "" {
		text += " on " + node + ", which has most"
	}
	return text
}

func (s *shortfall) amount(n int64) string {
	switch {
	case s.resource == v1.ResourceCPU && n%1000 == 0:
		return fmt.Sprint(n / 1000) // The quantity would be written as 4k.
	case s.resource == v1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case s.resource == v1.ResourceMemory, s.resource == v1.ResourceEphemeralStorage, strings.HasPrefix(string(s.resource), v1.ResourceHugePagesPrefix):
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}
