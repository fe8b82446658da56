package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/playground/workload"
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
	s.Devices(0, numbered(3)...)
	late, never := s.Name+"-late", s.Name+"-never"
	s.ClaimAndPod("late", workload.Devices{Class: late, Count: 1})
	s.ClaimAndPod("never", workload.Devices{Class: never, Count: 1})
	s.Waiting("late", "claim "+s.Name+"/late", "request gpu", "device class "+late+" does not exist")
	s.Waiting("never", "claim "+s.Name+"/never", "request gpu", "device class "+never+" does not exist")
	s.ClaimAndPod("other", s.Want(1))
	s.Running("other")
	s.Create(workload.Class(late, workload.OfDriver(s.Driver)))
	s.RunningSoon("late")
	s.Waiting("never", "device class "+never+" does not exist")
}

func testMissingClaim(t *testing.T) {
	s := newSpace(t, "noclaim", 1)
	s.Devices(0, numbered(2)...)
	s.Create(one("present", s.Want(1)), s.Pod("late", uses("present", "late")))
	s.Waiting("late", "claim "+s.Name+"/late", "does not exist")
	require.Nil(t, s.LiveClaim("present").Status.Allocation, "a pod that cannot run holds no devices")
	s.Create(one("late", s.Want(1)))
	s.RunningSoon("late")
}

func testMissingTemplate(t *testing.T) {
	s := newSpace(t, "notemplate", 1)
	s.Devices(0, numbered(2)...)
	s.Create(s.Pod("late", fromTemplate("late")))
	s.Waiting("late", "late in the pod", "template "+s.Name+"/late")
	s.ClaimAndPod("other", s.Want(1))
	s.Running("other")
	s.Create(workload.Template("late", workload.Request("gpu", s.Want(1))))
	s.RunningSoon("late")
}

func testMissingDevices(t *testing.T) {
	s := newSpace(t, "nodevices", 1)
	s.ClaimAndPod("early", s.Want(2))
	s.Waiting("early", "claim "+s.Name+"/early", "request gpu")
	s.Devices(0, numbered(2)...)
	s.RunningSoon("early")
}

func testMissingNode(t *testing.T) {
	s := newSpace(t, "nonode", 1)
	s.Devices(0, numbered(1)...)
	// The devices may be known before their node is.
	s.Devices(1, numbered(2)...)
	s.ClaimAndPod("two", s.Want(2))
	s.Waiting("two", "claim "+s.Name+"/two", "request gpu", "1 device matches, 2 are wanted")
	s.AddNode(1, nil)
	s.RunningSoon("two")
	require.Equal(t, s.Node(1), s.LivePod("two").Spec.NodeName)
}
