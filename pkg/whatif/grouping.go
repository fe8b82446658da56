package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// grouping puts nodes together that have the same in the way.
type grouping struct {
	groups []Group
	// at is where the group of a reason is, and shortest who of it comes closest to what is asked, if that is a resource.
	at       map[string]int
	shortest []*nodeShortfall
}

// nodeShortfall is of what a node has too little.
type nodeShortfall struct {
	node string
	shortfall
}

// add returns the group of an obstacle with the node in it.
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

// sorted returns the groups, most nodes first. Those that lack a resource say how much of it there is.
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

// shortfall is by how much a resource besides devices is too little on a node, in thousandths for CPU.
type shortfall struct {
	resource           v1.ResourceName
	asked, free, there int64
}

// on says how much is asked for and free. With a node, it is the one of several on which most is free.
func (s *shortfall) on(node string) string {
	text := fmt.Sprintf("too little %s is left: %s asked, %s of %s free", s.resource, s.amount(s.asked), s.amount(max(0, s.free)), s.amount(s.there))
	if node != "" {
		text += " on " + node + ", which has most"
	}
	return text
}

func (s *shortfall) amount(n int64) string {
	switch {
	case s.resource == v1.ResourceCPU && n%1000 == 0:
		return fmt.Sprint(n / 1000) // Not 4k.
	case s.resource == v1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case s.resource == v1.ResourceMemory, s.resource == v1.ResourceEphemeralStorage, strings.HasPrefix(string(s.resource), v1.ResourceHugePagesPrefix):
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}
