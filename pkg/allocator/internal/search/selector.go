package search

import (
	"fmt"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Selector returns a node selector for the nodes where the devices of a claim can be used, or nil for all
// nodes. A device that is local to a node, or binds to the node that uses it, restricts it to the given node.
// Otherwise the selectors of all devices must hold together. Of a selector with several terms, which the API
// does not allow any more, it takes the first term that the node meets; with asUpstream that is an error.
func Selector(node *v1.Node, devices iter.Seq[*inventory.Device], asUpstream bool) (*v1.NodeSelector, error) {
	var joined v1.NodeSelectorTerm
	for device := range devices {
		nodeName, selector := device.Slice.Spec.NodeName, device.Slice.Spec.NodeSelector
		if ptr.Deref(device.Slice.Spec.PerDeviceNodeSelection, false) {
			nodeName, selector = device.NodeName, device.NodeSelector
		}
		if nodeName != nil || ptr.Deref(device.BindsToNode, false) {
			return onlyNode(node.Name), nil
		}
		if selector == nil || len(selector.NodeSelectorTerms) == 0 {
			continue
		}
		if n := len(selector.NodeSelectorTerms); n > 1 && asUpstream {
			return nil, fmt.Errorf("device %s: its node selector has %d terms but the API allows only one; "+
				"its driver must publish it again", device.Name, n)
		}
		term := &selector.NodeSelectorTerms[max(0, slices.IndexFunc(selector.NodeSelectorTerms, func(term v1.NodeSelectorTerm) bool { return meets(node, term) }))]
		joined.MatchFields = addRequirements(joined.MatchFields, term.MatchFields)
		joined.MatchExpressions = addRequirements(joined.MatchExpressions, term.MatchExpressions)
	}
	if len(joined.MatchFields) == 0 && len(joined.MatchExpressions) == 0 {
		return nil, nil
	}
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{joined}}, nil
}

func meets(node *v1.Node, term v1.NodeSelectorTerm) bool {
	selector, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}})
	return err == nil && selector.Match(node)
}

// onlyNode returns a selector for a node's name. One allocation holds all its parts.
func onlyNode(name string) *v1.NodeSelector {
	parts := &struct {
		selector     v1.NodeSelector
		terms        [1]v1.NodeSelectorTerm
		requirements [1]v1.NodeSelectorRequirement
		values       [1]string
	}{}
	parts.values[0] = name
	parts.requirements[0] = v1.NodeSelectorRequirement{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: parts.values[:]}
	parts.terms[0].MatchFields = parts.requirements[:]
	parts.selector.NodeSelectorTerms = parts.terms[:]
	return &parts.selector
}

// addRequirements appends the requirements that are not in the list yet.
func addRequirements(to, from []v1.NodeSelectorRequirement) []v1.NodeSelectorRequirement {
	for _, requirement := range from {
		if !slices.ContainsFunc(to, func(r v1.NodeSelectorRequirement) bool { return sameRequirement(r, requirement) }) {
			to = append(to, requirement)
		}
	}
	return to
}

// sameRequirement compares requirements regardless of the order and repetition of values.
func sameRequirement(a, b v1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator && includes(a.Values, b.Values) && includes(b.Values, a.Values)
}

func includes(all, some []string) bool {
	for _, v := range some {
		if !slices.Contains(all, v) {
			return false
		}
	}
	return true
}
