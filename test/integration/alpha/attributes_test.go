package alpha

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Constraints over attributes that claims derive, and over lists.
func TestAttributes(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"derived, of two drivers":    testDerivedAttributes,
		"derived, distinct":          testDerivedDistinct,
		"derived, the gate is off":   testDerivedWithoutGate,
		"derived, in an alternative": testDerivedInAlternative,
		"list, matchAttribute":       testListMatch,
		"list, distinctAttribute":    testListDistinct,
		"list, in a selector":        testListSelector,
		"list, the gate is off":      testListWithoutGate,
	})
}

// running is nil if exactly so many pods run.
func (s *space) running(want int) func(context.Context) error {
	return func(context.Context) error {
		running := 0
		for _, pod := range s.Pods() {
			if s.Runs(pod) == nil {
				running++
			}
		}
		if running != want {
			return fmt.Errorf("%d run", running)
		}
		return nil
	}
}

func (s *space) liveSlice(name string) *resourceapi.ResourceSlice {
	s.T.Helper()
	slice, err := s.Cluster.Client.ResourceV1().ResourceSlices().Get(s.T.Context(), name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return slice
}

// deriving asks for one device of a kind, and derives an attribute from its published one.
func (s *space) deriving(kind, attribute string) *builder.RequestBuilder {
	return s.Want(1, fmt.Sprintf("%s == %q", s.Attribute("kind"), kind)).Derive("derived/numa", s.Attribute(attribute))
}

// numaDevices are GPUs and NICs that name their NUMA nodes differently.
func numaDevices() []*builder.DeviceBuilder {
	return []*builder.DeviceBuilder{
		builder.Device("gpu-0").Attr("kind", "gpu").Attr("numa", "n0"), builder.Device("gpu-1").Attr("kind", "gpu").Attr("numa", "n1"),
		builder.Device("nic-0").Attr("kind", "nic").Attr("numaNode", "n1"), builder.Device("nic-1").Attr("kind", "nic").Attr("numaNode", "n2"),
	}
}

func testDerivedAttributes(t *testing.T) {
	s := newSpace(t, "derived", 1)
	s.Devices(0, numaDevices()...)
	pair := func(name string) {
		s.Create(builder.Claim(name, s.deriving("gpu", "numa"), s.deriving("nic", "numaNode").Named("nic")).
			Match("derived/numa", "gpu", "nic").Obj(), s.Pod(name, builder.Uses(name)))
	}
	pair("first")
	s.Running("first")
	require.Equal(t, []string{s.Node(0) + "/gpu-1", s.Node(0) + "/nic-0"}, s.DeviceNames("first"))
	pair("second")
	s.Waiting("second", "claim "+s.Name+"/second")
	s.DeletePod("first")
	s.RunningSoon("second")
}

func testDerivedDistinct(t *testing.T) {
	s := newSpace(t, "deriveddistinct", 1)
	var devices []*builder.DeviceBuilder
	for i := range 4 {
		devices = append(devices, builder.Device(fmt.Sprintf("gpu-%d", i)).Attr("index", i))
	}
	s.Devices(0, devices...)
	want := s.Want(2).Derive("derived/board", s.Attribute("index")+" / 2")
	s.Create(builder.Claim("boards", want).Distinct("derived/board").Obj(), s.Pod("boards", builder.Uses("boards")))
	s.Running("boards")
	require.Equal(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-2"}, s.DeviceNames("boards"))
}

func testDerivedInAlternative(t *testing.T) {
	s := newSpace(t, "derivedalternative", 1)
	s.Devices(0, numaDevices()...)
	s.Create(builder.Claim("pair", s.deriving("gpu", "numa"),
		builder.FirstAvailable("other", s.deriving("tpu", "numa").Named("tpu"), s.deriving("nic", "numaNode").Named("nic"))).
		Match("derived/numa").Obj(), s.Pod("pair", builder.Uses("pair")))
	s.Running("pair")
	require.Equal(t, []string{s.Node(0) + "/gpu-1", s.Node(0) + "/nic-0"}, s.DeviceNames("pair"))
}

func testDerivedWithoutGate(t *testing.T) {
	s := newSpaceWithout(t, "derivedoff", 1, map[string]bool{"DRADerivedAttributes": false})
	s.Devices(0, numaDevices()...)
	s.Create(builder.Claim("pair", s.deriving("gpu", "numa")).
		Match("derived/numa").Obj(), s.Pod("pair", builder.Uses("pair")))
	s.Waiting("pair", "claim "+s.Name+"/pair", "has derived attributes but the feature DRADerivedAttributes is off")
}

// linked makes a device that has links to several switches.
func linked(name string, switches ...string) *builder.DeviceBuilder {
	return builder.Device(name).Attr("switches", resourceapi.DeviceAttribute{StringValues: switches})
}

func (s *space) pairOf(name string, constraint func(claim *builder.ClaimBuilder, attribute string, requests ...string) *builder.ClaimBuilder) {
	s.Create(constraint(builder.Claim(name, s.Want(2)), s.Driver+"/switches").Obj(), s.Pod(name, builder.Uses(name)))
}

func testListMatch(t *testing.T) {
	s := newSpace(t, "listmatch", 1)
	s.Devices(0, linked("gpu-0", "a", "b"), linked("gpu-1", "c"), linked("gpu-2", "b", "c"))
	s.pairOf("pair", (*builder.ClaimBuilder).Match)
	s.Running("pair")
	require.Equal(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-2"}, s.DeviceNames("pair"), "b is the switch that both have")
}

func testListDistinct(t *testing.T) {
	s := newSpace(t, "listdistinct", 1)
	s.Devices(0, linked("gpu-0", "a", "b"), linked("gpu-1", "b"), linked("gpu-2", "c"))
	s.pairOf("pair", (*builder.ClaimBuilder).Distinct)
	s.Running("pair")
	require.Equal(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-2"}, s.DeviceNames("pair"), "no switch of one is one of the other")
}

func testListSelector(t *testing.T) {
	s := newSpace(t, "listselector", 1)
	s.Devices(0, linked("gpu-0", "a", "b"), linked("gpu-1", "c"))
	s.ClaimAndPod("one", s.Want(1, s.Attribute("switches")+`.includes("c")`))
	s.Running("one")
	require.Equal(t, []string{s.Node(0) + "/gpu-1"}, s.DeviceNames("one"))
}

func testListWithoutGate(t *testing.T) {
	s := newSpaceWithout(t, "listoff", 1, map[string]bool{"DRAListTypeAttributes": false})
	s.Devices(0, linked("gpu-0", "a"), linked("gpu-1", "a"))
	s.pairOf("pair", (*builder.ClaimBuilder).Match)
	s.Waiting("pair", "claim "+s.Name+"/pair")
	require.False(t, strings.Contains(harness.Reason(s.LivePod("pair")), "gave up"))
}
