package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
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
	s.t.Helper()
	return s.claims(pod)[0].Status.Allocation.NodeSelector
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
	s.devices(1, numbered(1)...)
	s.claimAndPod("one", s.want(1))
	s.running("one")
	require.Equal(t, s.node(1), s.livePod("one").Spec.NodeName)
	require.Empty(t, cmp.Diff(onlyOn(s.node(1)), s.selectorOf("one")))
}

func testLabelledNodes(t *testing.T) {
	s := newSpace(t, "labelled", 1)
	for i := 1; i <= 2; i++ {
		s.addNode(i, map[string]string{rack: s.name})
	}
	s.create(builder.Slice(s.name).OfDriver(s.driver).OnLabeled(rack, s.name).Devices(numbered(2)...).Obj())
	s.create(one("shared", s.want(2)), s.podOnNode("first", 1, uses("shared")), s.podOnNode("second", 2, uses("shared")))
	s.running("first", "second")
	require.Equal(t, s.deviceNames("first"), s.deviceNames("second"))
	require.Empty(t, cmp.Diff(builder.NodeSelector(rack, s.name), s.selectorOf("first")))
	s.create(s.podOnNode("third", 0, uses("shared")))
	s.waiting("third", "claim "+s.name+"/shared", "allocated on other nodes")
}

// A node comes to reach the devices when it gets the label.
func testLabelSetLater(t *testing.T) {
	s := newSpace(t, "relabelled", 1)
	s.create(builder.Slice(s.name).OfDriver(s.driver).OnLabeled(rack, s.name).Devices(numbered(1)...).Obj())
	s.claimAndPod("one", s.want(1))
	s.waiting("one", "claim "+s.name+"/one", "request gpu")
	s.labelNode(0, rack, s.name)
	s.runningSoon("one")
}

func testAllNodes(t *testing.T) {
	s := newSpace(t, "everywhere", 2)
	s.create(builder.Slice(s.name).OfDriver(s.driver).OnAllNodes().Devices(numbered(2)...).Obj())
	s.create(one("shared", s.want(1)), s.podOnNode("first", 0, uses("shared")), s.podOnNode("second", 1, uses("shared")))
	s.running("first", "second")
	require.Equal(t, s.deviceNames("first"), s.deviceNames("second"))
	require.Nil(t, s.selectorOf("first"))
	// Together with a local device, it is that device which decides.
	s.create(builder.NodeSlice(s.node(1), numbered(3)[2]).OfDriver(s.driver).Obj())
	s.claimAndPod("both", s.want(2))
	s.running("both")
	require.Empty(t, cmp.Diff(onlyOn(s.node(1)), s.selectorOf("both")))
}

func testPerDevice(t *testing.T) {
	s := newSpace(t, "perdevice", 2)
	s.addNode(2, map[string]string{rack: s.name})
	devices := numbered(3)
	devices[0].OnNode(s.node(0))
	devices[1].OnLabeled(rack, s.name)
	devices[2].OnAllNodes()
	s.create(builder.Slice(s.name).OfDriver(s.driver).PerDevice().Devices(devices...).Obj())
	for i, want := range []struct {
		node     int
		selector *corev1.NodeSelector
	}{
		{node: 0, selector: onlyOn(s.node(0))},
		{node: 2, selector: builder.NodeSelector(rack, s.name)},
		{node: 1, selector: nil},
	} {
		name := s.node(i)
		s.create(one(name, s.want(1)), s.podOnNode(name, want.node, uses(name)))
		s.running(name)
		require.Equal(t, []string{s.name + "/" + fmt.Sprintf("gpu-%d", i)}, s.deviceNames(name))
		require.Empty(t, cmp.Diff(want.selector, s.selectorOf(name)))
	}
}
