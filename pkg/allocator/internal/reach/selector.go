// Package reach says where devices that were allocated together can be used.
package reach

import (
	"fmt"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Selector returns where the devices of a claim can be used, nil if everywhere.
// A device that is local to a node, or binds to one when used, fixes the
// node, which is given. Otherwise the selectors of all devices must hold at once: of a selector with
// several terms, which the API does not allow any more, the first one that the node meets.
// Upstream makes that an error.
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
				"its driver must publish it anew", device.Name, n)
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

// onlyNode selects a node by name. All parts of the selector share one piece of memory.
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

// addRequirements appends those requirements that are not there yet.
func addRequirements(to, from []v1.NodeSelectorRequirement) []v1.NodeSelectorRequirement {
	for _, requirement := range from {
		if !slices.ContainsFunc(to, func(r v1.NodeSelectorRequirement) bool { return sameRequirement(r, requirement) }) {
			to = append(to, requirement)
		}
	}
	return to
}

// sameRequirement ignores the order of values and repeated ones.
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
