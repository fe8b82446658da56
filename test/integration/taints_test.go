package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

const (
	noSchedule = resourceapi.DeviceTaintEffectNoSchedule
	noExecute  = resourceapi.DeviceTaintEffectNoExecute
	sick       = "example.com/sick"
)

// Devices that are tainted by their driver or by a rule (KEP-5055).
func TestTaints(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"of the driver":        testDriverTaint,
		"of a rule":            testTaintRule,
		"of a rule, evicting":  testTaintEviction,
		"of a rule for a pool": testTaintRuleForPool,
	})
}

// tolerant asks for one device, whatever is wrong with it.
func (s *space) tolerant(effect resourceapi.DeviceTaintEffect) *builder.RequestBuilder {
	return s.Want(1).Tolerate(sick, effect)
}

func testDriverTaint(t *testing.T) {
	s := newSpace(t, "drivertaint", 1)
	devices := numbered(2)
	devices[0].Taint(sick, noSchedule)
	s.Devices(0, devices...)
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	require.Equal(t, []string{s.Node(0) + "/gpu-1"}, s.DeviceNames("first"))
	s.ClaimAndPod("second", s.Want(1))
	s.Waiting("second", "claim "+s.Name+"/second", "request gpu", "all 2 devices that match have taints that are not tolerated", "or are held by other claims")
	s.ClaimAndPod("tolerant", s.tolerant(noSchedule))
	s.Running("tolerant")
	result := s.Results("tolerant")[0]
	require.Equal(t, "gpu-0", result.Device)
	require.Equal(t, []resourceapi.DeviceToleration{builder.Toleration(sick, noSchedule)}, result.Tolerations)
}

func testTaintRule(t *testing.T) {
	s := newSpace(t, "rule", 1)
	s.Devices(0, numbered(2)...)
	rule := builder.TaintRule(s.Name, s.Driver, s.Node(0), "gpu-1", sick, noSchedule)
	s.Create(rule)
	s.ClaimAndPod("first", s.Want(1))
	s.Running("first")
	s.ClaimAndPod("second", s.Want(1))
	s.Waiting("second", "claim "+s.Name+"/second", "request gpu", "all 2 devices that match have taints that are not tolerated", "or are held by other claims")
	s.Delete(rule)
	s.RunningSoon("second")
	require.Equal(t, []string{s.Node(0) + "/gpu-1"}, s.DeviceNames("second"))
}

// A rule that comes while devices are in use lets their users be, and keeps
// others away.
func testTaintRuleForPool(t *testing.T) {
	s := newSpace(t, "poolrule", 2)
	s.Devices(0, numbered(2)...)
	s.Devices(1, numbered(1)...)
	s.Create(builder.Claim("user", s.Want(1)).Obj(), s.PodOnNode("user", 0, builder.Uses("user")))
	s.Running("user")
	rule := builder.TaintRule(s.Name, s.Driver, s.Node(0), "", sick, noSchedule)
	s.Create(rule)
	s.Create(builder.Claim("next", s.Want(1)).Obj(), s.PodOnNode("next", 0, builder.Uses("next")))
	s.Waiting("next", "claim "+s.Name+"/next", "request gpu", "taints that are not tolerated")
	s.ClaimAndPod("elsewhere", s.Want(1))
	s.Running("elsewhere", "user")
	require.Equal(t, s.Node(1), s.LivePod("elsewhere").Spec.NodeName)
	s.Delete(rule)
	s.RunningSoon("next")
}

func testTaintEviction(t *testing.T) {
	s := newSpace(t, "eviction", 1)
	s.Devices(0, numbered(2)...)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.Create(s.Pod("victim", builder.FromTemplate("one")))
	s.Running("victim")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("victim"))
	s.Create(builder.TaintRule(s.Name, s.Driver, s.Node(0), "gpu-0", sick, noExecute))
	s.Gone("victim")
	s.Create(s.Pod("successor", builder.FromTemplate("one")))
	s.Running("successor")
	require.Equal(t, []string{s.Node(0) + "/gpu-1"}, s.DeviceNames("successor"))
	s.ClaimAndPod("tolerant", s.tolerant(noExecute))
	s.Running("tolerant")
	require.Equal(t, []string{s.Node(0) + "/gpu-0"}, s.DeviceNames("tolerant"))
}
