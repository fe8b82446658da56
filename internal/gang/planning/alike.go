package planning

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
)

// A class is a number of pods that are alike.
type class struct {
	members []Member
	view    *View
}

// first returns the pod that represents the class when plugins are asked.
func (c *class) first() *v1.Pod { return c.members[0].Pod.Pod }

// classes sorts the pods into classes: pods whose order of placement matters last, and otherwise
// those that need the most devices first.
func (p *Planner) classes(ctx context.Context, pods []*v1.Pod) (classes []*class, err error) {
	labels := p.labelsThatMatter(pods)
	byKey := make(map[string]*class)
	for _, pod := range pods {
		member, err := p.Pods.Describe(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s of the group: %w", pod.Name, err)
		}
		key := member.Claims + "\x00" + shapeOf(pod, labels)
		if member.Unfit != nil {
			key += "\x00" + member.Unfit.Error()
		}
		c := byKey[key]
		if c == nil {
			c = &class{}
			if c.view, err = p.Pods.View(ctx, pod); err != nil {
				return nil, fmt.Errorf("pod %s of the group: %w", pod.Name, err)
			}
			byKey[key] = c
			classes = append(classes, c)
		}
		c.members = append(c.members, member)
	}
	slices.SortStableFunc(classes, func(a, b *class) int {
		return cmp.Or(boolToInt(filters.IsOrdered(a.first()))-boolToInt(filters.IsOrdered(b.first())),
			cmp.Compare(devicesOf(&b.members[0]), devicesOf(&a.members[0])))
	})
	return classes, nil
}

// areAlike reports whether any pod can take the place planned for any other one.
func areAlike(classes []*class) bool {
	return len(classes) == 1 && (classes[0].members[0].Made == nil || !classes[0].members[0].Made.Varies)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// labelsThatMatter returns the keys of labels by which pods of the gang may be selected: by the gang's own affinity and
// spread constraints, and by the anti-affinity of pods on nodes. Other labels, for example a pod's index, do not make
// pods different.
func (p *Planner) labelsThatMatter(pods []*v1.Pod) sets.Set[string] {
	keys := sets.New[string]()
	for _, info := range p.Nodes {
		for _, pod := range info.GetPodsWithRequiredAntiAffinity() {
			terms := pod.GetRequiredAntiAffinityTerms()
			for i := range terms {
				requirements, _ := terms[i].Selector.Requirements()
				for _, r := range requirements {
					keys.Insert(r.Key())
				}
			}
		}
	}
	for _, pod := range pods {
		for i := range pod.Spec.TopologySpreadConstraints {
			constraint := &pod.Spec.TopologySpreadConstraints[i]
			keys.Insert(constraint.MatchLabelKeys...)
			insertKeys(keys, constraint.LabelSelector)
		}
		for _, term := range requiredTerms(pod.Spec.Affinity) {
			keys.Insert(term.MatchLabelKeys...)
			keys.Insert(term.MismatchLabelKeys...)
			insertKeys(keys, term.LabelSelector)
		}
	}
	return keys
}

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
