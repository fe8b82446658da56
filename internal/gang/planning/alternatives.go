package planning

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// firstAlternatives returns classes of the same pods in which each request has only its first alternative. differs
// reports whether any request had more.
func firstAlternatives(classes []*class) (first []*class, differs bool) {
	for _, c := range classes {
		next := *c
		next.members = slices.Clone(c.members)
		for i := range next.members {
			member := &next.members[i]
			member.Open = slices.Clone(member.Open)
			for j, claim := range member.Open {
				if hasAlternatives(claim) {
					member.Open[j], differs = dra.WithAlternatives(claim, 0, 1), true
				}
			}
		}
		first = append(first, &next)
	}
	return first, differs
}

func hasAlternatives(claim *resourceapi.ResourceClaim) bool {
	for r := range dra.Requests(claim) {
		if r.Rank > 0 {
			return true
		}
	}
	return false
}
