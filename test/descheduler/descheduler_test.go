package descheduler

import (
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestEvictions: the descheduler evicts pods with devices, and Quartermaster places what replaces them.
func TestEvictions(t *testing.T) {
	install(t)
	harness.RunScenarios(t, map[string]func(*testing.T){
		"moved with its devices":    testMoved,
		"protected":                 testProtected,
		"no room elsewhere":         testNoRoom,
		"still ending":              testEnding,
		"disruption budget":         testBudget,
		"extended resource":         testExtended,
		"shared claim":              testShared,
		"gang of scheduler-plugins": testGangOfPlugins,
		"gang of Kubernetes":        testGangOfKubernetes,
		"preempted pod":             testPreempted,
		"high utilization":          testPacked,
		"low utilization":           testSpread,
	})
}
