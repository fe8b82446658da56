package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
)

// Devices that have to go together, and those that must not.
func TestConstraints(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"matchAttribute":            testMatchAttribute,
		"distinctAttribute":         testDistinctAttribute,
		"matchAttribute, no answer": testNoMatch,
	})
}

// rooted makes devices with an attribute for the PCIe root and one for the kind.
func rooted(kind string, roots ...string) []*builder.DeviceBuilder {
	var devices []*builder.DeviceBuilder
	for i, root := range roots {
		devices = append(devices, builder.Device(fmt.Sprintf("%s-%d", kind, i)).Attr("kind", kind).Attr("root", root))
	}
	return devices
}

// ofKind asks for devices of rooted.
func (s *space) ofKind(kind string, count int64) workload.ClaimPart {
	return workload.Request(kind, s.Want(count, fmt.Sprintf("%s == %q", s.Attribute("kind"), kind)))
}

func testMatchAttribute(t *testing.T) {
	s := newSpace(t, "match", 1)
	s.Devices(0, append(rooted("gpu", "a", "b", "c"), rooted("nic", "c", "b")...)...)
	pair := func(name string) {
		s.Create(workload.Claim(name, s.ofKind("gpu", 1), s.ofKind("nic", 1),
			workload.MatchAttribute(s.Driver+"/root", "gpu", "nic")), s.Pod(name, uses(name)))
	}
	// The first GPU has no NIC beside it, and the first NIC is beside the last GPU.
	pair("first")
	pair("second")
	s.Running("first", "second")
	require.ElementsMatch(t, []string{
		s.Node(0) + "/gpu-1", s.Node(0) + "/nic-1", s.Node(0) + "/gpu-2", s.Node(0) + "/nic-0",
	}, append(s.DeviceNames("first"), s.DeviceNames("second")...))
	for _, pod := range []string{"first", "second"} {
		require.Contains(t, [][]string{
			{s.Node(0) + "/gpu-1", s.Node(0) + "/nic-1"}, {s.Node(0) + "/gpu-2", s.Node(0) + "/nic-0"},
		}, s.DeviceNames(pod))
	}
	pair("third")
	s.Waiting("third", "claim "+s.Name+"/third", "request nic", "held by")
}

func testDistinctAttribute(t *testing.T) {
	s := newSpace(t, "distinct", 1)
	s.Devices(0, rooted("gpu", "a", "a", "b", "b", "b")...)
	distinct := func(name string, count int64) {
		s.Create(workload.Claim(name, s.ofKind("gpu", count),
			workload.DistinctAttribute(s.Driver+"/root")), s.Pod(name, uses(name)))
	}
	distinct("two", 2)
	s.Running("two")
	require.ElementsMatch(t, []string{s.Node(0) + "/gpu-0", s.Node(0) + "/gpu-2"}, s.DeviceNames("two"))
	distinct("three", 3)
	s.Waiting("three", "claim "+s.Name+"/three", "differ in "+s.Driver+"/root (distinctAttribute)")
	distinct("two-more", 2)
	s.Running("two-more")
}

func testNoMatch(t *testing.T) {
	s := newSpace(t, "nomatch", 1)
	s.Devices(0, append(rooted("gpu", "a"), rooted("nic", "b")...)...)
	s.Create(workload.Claim("pair", s.ofKind("gpu", 1), s.ofKind("nic", 1),
		workload.MatchAttribute(s.Driver+"/root")), s.Pod("pair", uses("pair")))
	s.Waiting("pair", "claim "+s.Name+"/pair", "agree on "+s.Driver+"/root (matchAttribute)")
	// Each on its own is no problem, and another node may have both.
	s.Create(workload.Claim("free", s.ofKind("gpu", 1), s.ofKind("nic", 1)), s.Pod("free", uses("free")))
	s.Running("free")
	s.AddNode(1, nil)
	s.Devices(1, append(rooted("gpu", "a"), rooted("nic", "a")...)...)
	s.RunningSoon("pair")
}
