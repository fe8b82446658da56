package alpha

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
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
func (s *space) deriving(kind, attribute string) workload.Devices {
	devices := s.Want(1, fmt.Sprintf("%s == %q", s.Attribute("kind"), kind))
	devices.Derived = map[string]string{"derived/numa": s.Attribute(attribute)}
	return devices
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
		s.Create(workload.Claim(name, workload.Request("gpu", s.deriving("gpu", "numa")), workload.Request("nic", s.deriving("nic", "numaNode")),
			workload.MatchAttribute("derived/numa", "gpu", "nic")), s.Pod(name, harness.Uses(name)))
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
	want := s.Want(2)
	want.Derived = map[string]string{"derived/board": s.Attribute("index") + " / 2"}
	s.Create(workload.Claim("boards", workload.Request("gpu", want), workload.DistinctAttribute("derived/board")), s.Pod("boards", harness.Uses("boards")))
	s.Running("boards")
	require.Equal(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-2"}, s.DeviceNames("boards"))
}

func testDerivedInAlternative(t *testing.T) {
	s := newSpace(t, "derivedalternative", 1)
	s.Devices(0, numaDevices()...)
	s.Create(workload.Claim("pair", workload.Request("gpu", s.deriving("gpu", "numa")),
		workload.FirstAvailable("other", workload.Alternative{Name: "tpu", Devices: s.deriving("tpu", "numa")}, workload.Alternative{Name: "nic", Devices: s.deriving("nic", "numaNode")}),
		workload.MatchAttribute("derived/numa")), s.Pod("pair", harness.Uses("pair")))
	s.Running("pair")
	require.Equal(t, []string{s.Node(0) + "/gpu-1", s.Node(0) + "/nic-0"}, s.DeviceNames("pair"))
}

func testDerivedWithoutGate(t *testing.T) {
	s := newSpaceWithout(t, "derivedoff", 1, map[string]bool{"DRADerivedAttributes": false})
	s.Devices(0, numaDevices()...)
	s.Create(workload.Claim("pair", workload.Request("gpu", s.deriving("gpu", "numa")),
		workload.MatchAttribute("derived/numa")), s.Pod("pair", harness.Uses("pair")))
	s.Waiting("pair", "claim "+s.Name+"/pair", "has derived attributes, but the feature DRADerivedAttributes is off")
}

// linked makes a device that has links to several switches.
func linked(name string, switches ...string) *builder.DeviceBuilder {
	return builder.Device(name).Attr("switches", resourceapi.DeviceAttribute{StringValues: switches})
}

func (s *space) pairOf(name string, constraint func(string, ...string) workload.ClaimPart) {
	s.Create(workload.Claim(name, workload.Request("gpu", s.Want(2)), constraint(s.Driver+"/switches")), s.Pod(name, harness.Uses(name)))
}

func testListMatch(t *testing.T) {
	s := newSpace(t, "listmatch", 1)
	s.Devices(0, linked("gpu-0", "a", "b"), linked("gpu-1", "c"), linked("gpu-2", "b", "c"))
	s.pairOf("pair", workload.MatchAttribute)
	s.Running("pair")
	require.Equal(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-2"}, s.DeviceNames("pair"), "b is the switch that both have")
}

func testListDistinct(t *testing.T) {
	s := newSpace(t, "listdistinct", 1)
	s.Devices(0, linked("gpu-0", "a", "b"), linked("gpu-1", "b"), linked("gpu-2", "c"))
	s.pairOf("pair", workload.DistinctAttribute)
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
	s.pairOf("pair", workload.MatchAttribute)
	s.Waiting("pair", "claim "+s.Name+"/pair")
	require.False(t, strings.Contains(harness.Reason(s.LivePod("pair")), "gave up"))
}
