package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
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
func (s *space) tolerant(effect resourceapi.DeviceTaintEffect) workload.Devices {
	devices := s.want(1)
	devices.Tolerations = []resourceapi.DeviceToleration{workload.Tolerate(sick, effect)}
	return devices
}

func testDriverTaint(t *testing.T) {
	s := newSpace(t, "drivertaint", 1)
	devices := numbered(2)
	devices[0].Taint(sick, noSchedule)
	s.devices(0, devices...)
	s.claimAndPod("first", s.want(1))
	s.running("first")
	require.Equal(t, []string{s.node(0) + "/gpu-1"}, s.deviceNames("first"))
	s.claimAndPod("second", s.want(1))
	s.waiting("second", "claim "+s.name+"/second", "request gpu", "2 devices match, but all have taints that are not tolerated", "or are held by other claims")
	s.claimAndPod("tolerant", s.tolerant(noSchedule))
	s.running("tolerant")
	result := s.results("tolerant")[0]
	require.Equal(t, "gpu-0", result.Device)
	require.Equal(t, []resourceapi.DeviceToleration{workload.Tolerate(sick, noSchedule)}, result.Tolerations)
}

func testTaintRule(t *testing.T) {
	s := newSpace(t, "rule", 1)
	s.devices(0, numbered(2)...)
	rule := workload.TaintRule(s.name, s.driver, s.node(0), "gpu-1", sick, noSchedule)
	s.create(rule)
	s.claimAndPod("first", s.want(1))
	s.running("first")
	s.claimAndPod("second", s.want(1))
	s.waiting("second", "claim "+s.name+"/second", "request gpu", "2 devices match, but all have taints that are not tolerated", "or are held by other claims")
	s.delete(rule)
	s.runningSoon("second")
	require.Equal(t, []string{s.node(0) + "/gpu-1"}, s.deviceNames("second"))
}

// A rule that comes while devices are in use lets their users be, and keeps
// others away.
func testTaintRuleForPool(t *testing.T) {
	s := newSpace(t, "poolrule", 2)
	s.devices(0, numbered(2)...)
	s.devices(1, numbered(1)...)
	s.create(one("user", s.want(1)), s.podOnNode("user", 0, uses("user")))
	s.running("user")
	rule := workload.TaintRule(s.name, s.driver, s.node(0), "", sick, noSchedule)
	s.create(rule)
	s.create(one("next", s.want(1)), s.podOnNode("next", 0, uses("next")))
	s.waiting("next", "claim "+s.name+"/next", "request gpu", "taints that are not tolerated")
	s.claimAndPod("elsewhere", s.want(1))
	s.running("elsewhere", "user")
	require.Equal(t, s.node(1), s.livePod("elsewhere").Spec.NodeName)
	s.delete(rule)
	s.runningSoon("next")
}

func testTaintEviction(t *testing.T) {
	s := newSpace(t, "eviction", 1)
	s.devices(0, numbered(2)...)
	s.create(workload.Template("one", workload.Request("gpu", s.want(1))))
	s.create(s.pod("victim", fromTemplate("one")))
	s.running("victim")
	require.Equal(t, []string{s.node(0) + "/gpu-0"}, s.deviceNames("victim"))
	s.create(workload.TaintRule(s.name, s.driver, s.node(0), "gpu-0", sick, noExecute))
	s.gone("victim")
	s.create(s.pod("successor", fromTemplate("one")))
	s.running("successor")
	require.Equal(t, []string{s.node(0) + "/gpu-1"}, s.deviceNames("successor"))
	s.claimAndPod("tolerant", s.tolerant(noExecute))
	s.running("tolerant")
	require.Equal(t, []string{s.node(0) + "/gpu-0"}, s.deviceNames("tolerant"))
}
