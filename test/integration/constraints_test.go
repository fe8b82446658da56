package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
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
func (s *space) ofKind(kind string, count int64) *builder.RequestBuilder {
	return s.Want(count, fmt.Sprintf("%s == %q", s.Attribute("kind"), kind)).Named(kind)
}

func testMatchAttribute(t *testing.T) {
	s := newSpace(t, "match", 1)
	s.Devices(0, append(rooted("gpu", "a", "b", "c"), rooted("nic", "c", "b")...)...)
	pair := func(name string) {
		s.Create(builder.Claim(name, s.ofKind("gpu", 1), s.ofKind("nic", 1)).
			Match(s.Driver+"/root", "gpu", "nic").Obj(), s.Pod(name, builder.Uses(name)))
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
		s.Create(builder.Claim(name, s.ofKind("gpu", count)).
			Distinct(s.Driver+"/root").Obj(), s.Pod(name, builder.Uses(name)))
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
	s.Create(builder.Claim("pair", s.ofKind("gpu", 1), s.ofKind("nic", 1)).
		Match(s.Driver+"/root").Obj(), s.Pod("pair", builder.Uses("pair")))
	s.Waiting("pair", "claim "+s.Name+"/pair", "agree on "+s.Driver+"/root (matchAttribute)")
	// Each on its own is no problem, and another node may have both.
	s.Create(builder.Claim("free", s.ofKind("gpu", 1), s.ofKind("nic", 1)).Obj(), s.Pod("free", builder.Uses("free")))
	s.Running("free")
	s.AddNode(1, nil)
	s.Devices(1, append(rooted("gpu", "a"), rooted("nic", "a")...)...)
	s.RunningSoon("pair")
}
