package files

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Copies returns count copies of hardware. Copies of nodes, and of pools with slices for these nodes, get the names
// NAME-1, NAME-2 and so on; other pools are not copied. It fails for slices of nodes that exist neither in the file
// nor in the cluster (isKnown).
func Copies(o whatif.Objects, count int, isKnown func(node string) bool) (whatif.Objects, error) {
	here := make(map[string]bool)
	for _, node := range o.Nodes {
		here[node.Name] = true
	}
	for _, slice := range o.Slices {
		if name := slice.Spec.NodeName; name != nil && !here[*name] && !isKnown(*name) {
			return o, fmt.Errorf("ResourceSlice %s is for node %s, which neither the cluster nor the file has; add the Node, with its status.allocatable", slice.Name, *name)
		}
	}
	if count <= 1 {
		return o, nil
	}
	nodes, published := o.Nodes, o.Slices
	o.Nodes, o.Slices = nil, nil
	copied := make(map[inventory.PoolID]bool)
	for _, slice := range published {
		if isOf(slice, here) {
			copied[poolOf(slice)] = true
		}
	}
	for _, slice := range published {
		if !copied[poolOf(slice)] {
			o.Slices = append(o.Slices, slice)
		}
	}
	for i := 1; i <= count; i++ {
		suffix := fmt.Sprintf("-%d", i)
		for _, node := range nodes {
			o.Nodes = append(o.Nodes, nodeCopy(node, suffix))
		}
		for _, slice := range published {
			if copied[poolOf(slice)] {
				o.Slices = append(o.Slices, sliceCopy(slice, here, suffix))
			}
		}
	}
	return o, nil
}

func poolOf(slice *resourceapi.ResourceSlice) inventory.PoolID {
	return inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
}

func nodeCopy(node *v1.Node, suffix string) *v1.Node {
	node = node.DeepCopy()
	if node.Labels[v1.LabelHostname] == node.Name {
		node.Labels[v1.LabelHostname] += suffix
	}
	node.Name, node.UID = node.Name+suffix, ""
	return node
}

// isOf reports whether a slice, or one of its devices, is for one of the nodes.
func isOf(slice *resourceapi.ResourceSlice, nodes map[string]bool) bool {
	if named(slice.Spec.NodeName, slice.Spec.NodeSelector, nodes) {
		return true
	}
	return slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return named(d.NodeName, d.NodeSelector, nodes) })
}

func named(name *string, selector *v1.NodeSelector, nodes map[string]bool) bool {
	if name != nil && nodes[*name] {
		return true
	}
	found := false
	renameIn(selector, func(value string) string {
		found = found || nodes[value]
		return value
	})
	return found
}

func sliceCopy(slice *resourceapi.ResourceSlice, nodes map[string]bool, suffix string) *resourceapi.ResourceSlice {
	rename := func(name string) string {
		if nodes[name] {
			return name + suffix
		}
		return name
	}
	slice = slice.DeepCopy()
	slice.Name, slice.UID = slice.Name+suffix, ""
	spec := &slice.Spec
	spec.Pool.Name += suffix
	renameNode(spec.NodeName, spec.NodeSelector, rename)
	for i := range spec.Devices {
		renameNode(spec.Devices[i].NodeName, spec.Devices[i].NodeSelector, rename)
	}
	return slice
}

func renameNode(name *string, selector *v1.NodeSelector, rename func(string) string) {
	if name != nil {
		*name = rename(*name)
	}
	renameIn(selector, rename)
}

// renameIn renames the nodes in a selector.
func renameIn(selector *v1.NodeSelector, rename func(string) string) {
	if selector == nil {
		return
	}
	for i := range selector.NodeSelectorTerms {
		term := &selector.NodeSelectorTerms[i]
		for _, requirements := range [][]v1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
			for j := range requirements {
				for k, value := range requirements[j].Values {
					requirements[j].Values[k] = rename(value)
				}
			}
		}
	}
}
