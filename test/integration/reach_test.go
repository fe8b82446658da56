package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const rack = "example.com/rack"

// Which nodes reach a device, and that the allocation says so.
func TestReach(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"label set later": testLabelSetLater,
		"all nodes":       testAllNodes,
	})
}

// selectorOf is the node selector in the allocation of a pod's only claim.
func (s *space) selectorOf(pod string) *corev1.NodeSelector {
	s.T.Helper()
	return s.Claims(pod)[0].Status.Allocation.NodeSelector
}

// onlyOn is the selector for one node.
func onlyOn(node string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}
}

// A node comes to reach the devices when it gets the label.
func testLabelSetLater(t *testing.T) {
	s := newSpace(t, "relabelled", 1)
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnLabeled(rack, s.Name).Devices(numbered(1)...).Obj())
	s.ClaimAndPod("one", s.Want(1))
	s.Waiting("one", "claim "+s.Name+"/one", "request gpu")
	s.LabelNode(0, rack, s.Name)
	s.RunningSoon("one")
}

func testAllNodes(t *testing.T) {
	s := newSpace(t, "everywhere", 2)
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnAllNodes().Devices(numbered(2)...).Obj())
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), s.PodOnNode("first", 0, builder.Uses("shared")), s.PodOnNode("second", 1, builder.Uses("shared")))
	s.Running("first", "second")
	require.Equal(t, s.DeviceNames("first"), s.DeviceNames("second"))
	require.Nil(t, s.selectorOf("first"))
	// Together with a local device, it is that device which decides.
	s.Create(builder.NodeSlice(s.Node(1), numbered(3)[2]).OfDriver(s.Driver).Obj())
	s.ClaimAndPod("both", s.Want(2))
	s.Running("both")
	require.Empty(t, cmp.Diff(onlyOn(s.Node(1)), s.selectorOf("both")))
}
