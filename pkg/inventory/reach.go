package inventory

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// reach selects the nodes that can use a slice or a device. It is the compiled form of the fields
// nodeName, allNodes and nodeSelector, which ResourceSliceSpec and (with perDeviceNodeSelection)
// Device share.
type reach struct {
	nodeName string
	allNodes bool
	selector *nodeaffinity.NodeSelector
	// terms is the source of selector.
	terms *v1.NodeSelector
}

// newReach compiles the three fields. If several are set, the first in the order
// nodeName, allNodes, nodeSelector counts. If none is set, no node is reached.
func newReach(nodeName *string, allNodes *bool, selector *v1.NodeSelector) (reach, error) {
	switch {
	case ptr.Deref(nodeName, "") != "":
		return reach{nodeName: *nodeName}, nil
	case ptr.Deref(allNodes, false):
		return reach{allNodes: true}, nil
	case selector != nil:
		compiled, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			return reach{}, fmt.Errorf("node selector cannot be parsed: %w", err)
		}
		return reach{selector: compiled, terms: selector}, nil
	default:
		return reach{}, nil
	}
}

func (r reach) matches(node *v1.Node) bool {
	switch {
	case r.nodeName != "":
		return node.Name == r.nodeName
	case r.allNodes:
		return true
	case r.selector != nil:
		return r.selector.Match(node)
	default:
		return false
	}
}

// set reports whether any of the three fields was set.
func (r reach) set() bool {
	return r.nodeName != "" || r.allNodes || r.selector != nil
}

// equal reports whether two reaches are the same. It may return false for equal ones that are
// written differently.
func (r reach) equal(other reach) bool {
	return r.nodeName == other.nodeName && r.allNodes == other.allNodes && (r.terms == other.terms ||
		r.terms != nil && other.terms != nil && apiequality.Semantic.DeepEqual(r.terms, other.terms))
}
