package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// mostHolders limits the number of other gangs that Holders names.
const mostHolders = 3

// Holders lists other gangs that hold something that a gang lacks, those that hold most of it first; "" if there are none.
// It does not name gangs of other namespaces, which its reader may not know. has returns how much of it a pod holds.
func (c *Coordinator) Holders(gang string, has func(*v1.Pod) int) string {
	type holder struct {
		gang string
		has  int
	}
	var holders []holder
	namespace, elsewhere := namespaceOf(gang), 0
	for _, other := range c.pods.ListIndexFuncValues(gangIndex) {
		if other == gang {
			continue
		}
		h := holder{gang: other}
		for _, pod := range c.podsOf(other) {
			h.has += has(pod)
		}
		switch {
		case h.has == 0:
		case namespaceOf(other) == namespace:
			holders = append(holders, h)
		default:
			elsewhere += h.has
		}
	}
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Or(cmp.Compare(b.has, a.has), cmp.Compare(a.gang, b.gang)) })
	var texts []string
	for i, h := range holders {
		if i == mostHolders {
			texts = append(texts, fmt.Sprintf("%d more groups of this namespace hold some", len(holders)-mostHolders))
			break
		}
		texts = append(texts, fmt.Sprintf("group %s holds %d", h.gang, h.has))
	}
	if elsewhere > 0 {
		texts = append(texts, fmt.Sprintf("groups of other namespaces hold %d", elsewhere))
	}
	return strings.Join(texts, "; ")
}
