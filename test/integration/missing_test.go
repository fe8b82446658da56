package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Pods that refer to what does not exist say so, are in nobody's way, and run once
// it does exist.
func TestMissing(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"claim":    testMissingClaim,
		"template": testMissingTemplate,
		"devices":  testMissingDevices,
		"node":     testMissingNode,
	})
}

func testMissingClaim(t *testing.T) {
	s := newSpace(t, "noclaim", 1)
	s.Devices(0, numbered(2)...)
	s.Create(builder.Claim("present", s.Want(1)).Obj(), s.Pod("late", builder.Uses("present", "late")))
	s.Waiting("late", "claim "+s.Name+"/late", "does not exist")
	require.Nil(t, s.LiveClaim("present").Status.Allocation, "a pod that cannot run holds no devices")
	s.Create(builder.Claim("late", s.Want(1)).Obj())
	s.RunningSoon("late")
}

func testMissingTemplate(t *testing.T) {
	s := newSpace(t, "notemplate", 1)
	s.Devices(0, numbered(2)...)
	s.Create(s.Pod("late", builder.FromTemplate("late")))
	s.Waiting("late", "late in the pod", "template "+s.Name+"/late")
	s.ClaimAndPod("other", s.Want(1))
	s.Running("other")
	s.Create(builder.Claim("late", s.Want(1)).Template())
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
	s.Waiting("two", "claim "+s.Name+"/two", "request gpu", "1 device matches: 2 asked")
	s.AddNode(1, nil)
	s.RunningSoon("two")
	require.Equal(t, s.Node(1), s.LivePod("two").Spec.NodeName)
}
