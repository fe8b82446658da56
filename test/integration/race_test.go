package integration

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Two hundred pods that each want one of a hundred devices.
func TestMorePodsThanDevices(t *testing.T) {
	harness.Long(t, "200 pods come at once")
	t.Parallel()
	const nodes, devicesPerNode, pods = 10, 10, 200
	const devices, released = nodes * devicesPerNode, nodes * devicesPerNode / 2
	s := newSpace(t, "race", nodes)
	for node := range nodes {
		s.Devices(node, numbered(devicesPerNode)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.CreatePods("racer", pods)

	first := s.RunningAndWaiting(devices, pods-devices)
	slices.Sort(first)
	for _, name := range first[:released] {
		s.DeletePod(name)
	}
	second := s.RunningAndWaiting(devices, pods-devices-released)
	for _, name := range first[released:] {
		require.Contains(t, second, name, "a pod that ran and was not deleted has to keep running")
	}
}
