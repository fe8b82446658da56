package kueue

import (
	"testing"
	"time"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestAdmission: Kueue admits by quota, and Quartermaster places the admitted pods.
func TestAdmission(t *testing.T) {
	start(t, settings{gates: map[string]bool{"DynamicResourceAllocation": true, "DRAExtendedResources": true}})
	harness.RunScenarios(t, map[string]func(*testing.T){
		"quota by device class":               testQuota,
		"quota of extended resources":         testExtended,
		"stopped and started":                 testStopped,
		"preempted by Kueue":                  testPreemptedByKueue,
		"preempted by Quartermaster":          testPreemptedByUs,
		"group of pods":                       testPods,
		"gangs":                               testGangs,
		"JobSets":                             testJobSets,
		"domain":                              testDomain,
		"topology and devices in one flavor":  testTopologyTogether,
		"topology and devices in two flavors": testTopology,
		"refused claims":                      testRefused,
		"shared claim":                        testSharedClaim,
	})
}

// TestPodsReady: Kueue takes back jobs whose pods are not ready soon.
func TestPodsReady(t *testing.T) {
	start(t, settings{readyWithin: 5 * time.Second, gates: map[string]bool{"DynamicResourceAllocation": true}})
	harness.RunScenarios(t, map[string]func(*testing.T){
		"fragmented devices":           testFragmented,
		"gang taken back":              testGangTakenBack,
		"topology and a device in use": testTopologyTaken,
		"preempted by Quartermaster":   testTakenBack,
	})
}
