package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// Pods that refer to what does not exist say so, are in nobody's way, and run once
// it does exist.
func TestMissing(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"class":    testMissingClass,
		"claim":    testMissingClaim,
		"template": testMissingTemplate,
		"devices":  testMissingDevices,
		"node":     testMissingNode,
	})
}

func testMissingClass(t *testing.T) {
	s := newSpace(t, "noclass", 1)
	s.devices(0, numbered(3)...)
	late, never := s.name+"-late", s.name+"-never"
	s.claimAndPod("late", workload.Devices{Class: late, Count: 1})
	s.claimAndPod("never", workload.Devices{Class: never, Count: 1})
	s.waiting("late", "claim "+s.name+"/late", "request gpu", "device class "+late+" does not exist")
	s.waiting("never", "claim "+s.name+"/never", "request gpu", "device class "+never+" does not exist")
	s.claimAndPod("other", s.want(1))
	s.running("other")
	s.create(workload.Class(late, workload.OfDriver(s.driver)))
	s.runningSoon("late")
	s.waiting("never", "device class "+never+" does not exist")
}

func testMissingClaim(t *testing.T) {
	s := newSpace(t, "noclaim", 1)
	s.devices(0, numbered(2)...)
	s.create(one("present", s.want(1)), s.pod("late", uses("present", "late")))
	s.waiting("late", "claim "+s.name+"/late", "does not exist")
	require.Nil(t, s.liveClaim("present").Status.Allocation, "a pod that cannot run holds no devices")
	s.create(one("late", s.want(1)))
	s.runningSoon("late")
}

func testMissingTemplate(t *testing.T) {
	s := newSpace(t, "notemplate", 1)
	s.devices(0, numbered(2)...)
	s.create(s.pod("late", fromTemplate("late")))
	s.waiting("late", "late in the pod", "template "+s.name+"/late")
	s.claimAndPod("other", s.want(1))
	s.running("other")
	s.create(workload.Template("late", workload.Request("gpu", s.want(1))))
	s.runningSoon("late")
}

func testMissingDevices(t *testing.T) {
	s := newSpace(t, "nodevices", 1)
	s.claimAndPod("early", s.want(2))
	s.waiting("early", "claim "+s.name+"/early", "request gpu")
	s.devices(0, numbered(2)...)
	s.runningSoon("early")
}

func testMissingNode(t *testing.T) {
	s := newSpace(t, "nonode", 1)
	s.devices(0, numbered(1)...)
	// The devices may be known before their node is.
	s.devices(1, numbered(2)...)
	s.claimAndPod("two", s.want(2))
	s.waiting("two", "claim "+s.name+"/two", "request gpu", "1 device matches, 2 are wanted")
	s.addNode(1, nil)
	s.runningSoon("two")
	require.Equal(t, s.node(1), s.livePod("two").Spec.NodeName)
}
