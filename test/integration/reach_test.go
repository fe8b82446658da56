package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

const rack = "example.com/rack"

// Which nodes reach a device, and that the allocation says so.
func TestReach(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"node":            testNodeLocal,
		"labelled nodes":  testLabelledNodes,
		"label set later": testLabelSetLater,
		"all nodes":       testAllNodes,
		"per device":      testPerDevice,
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

func testNodeLocal(t *testing.T) {
	s := newSpace(t, "local", 2)
	s.Devices(1, numbered(1)...)
	s.ClaimAndPod("one", s.Want(1))
	s.Running("one")
	require.Equal(t, s.Node(1), s.LivePod("one").Spec.NodeName)
	require.Empty(t, cmp.Diff(onlyOn(s.Node(1)), s.selectorOf("one")))
}

func testLabelledNodes(t *testing.T) {
	s := newSpace(t, "labelled", 1)
	for i := 1; i <= 2; i++ {
		s.AddNode(i, map[string]string{rack: s.Name})
	}
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnLabeled(rack, s.Name).Devices(numbered(2)...).Obj())
	s.Create(builder.Claim("shared", s.Want(2)).Obj(), s.PodOnNode("first", 1, builder.Uses("shared")), s.PodOnNode("second", 2, builder.Uses("shared")))
	s.Running("first", "second")
	require.Equal(t, s.DeviceNames("first"), s.DeviceNames("second"))
	require.Empty(t, cmp.Diff(builder.NodeSelector(rack, s.Name), s.selectorOf("first")))
	s.Create(s.PodOnNode("third", 0, builder.Uses("shared")))
	s.Waiting("third", "claim "+s.Name+"/shared", "allocated on other nodes")
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

func testPerDevice(t *testing.T) {
	s := newSpace(t, "perdevice", 2)
	s.AddNode(2, map[string]string{rack: s.Name})
	devices := numbered(3)
	devices[0].OnNode(s.Node(0))
	devices[1].OnLabeled(rack, s.Name)
	devices[2].OnAllNodes()
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).PerDevice().Devices(devices...).Obj())
	for i, want := range []struct {
		node     int
		selector *corev1.NodeSelector
	}{
		{node: 0, selector: onlyOn(s.Node(0))},
		{node: 2, selector: builder.NodeSelector(rack, s.Name)},
		{node: 1, selector: nil},
	} {
		name := s.Node(i)
		s.Create(builder.Claim(name, s.Want(1)).Obj(), s.PodOnNode(name, want.node, builder.Uses(name)))
		s.Running(name)
		require.Equal(t, []string{s.Name + "/" + fmt.Sprintf("gpu-%d", i)}, s.DeviceNames(name))
		require.Empty(t, cmp.Diff(want.selector, s.selectorOf(name)))
	}
}
