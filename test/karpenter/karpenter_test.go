package karpenter

import (
	"testing"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestNodesForClaims: a Karpenter that looks at claims adds and removes nodes, and Quartermaster hands out their devices.
func TestNodesForClaims(t *testing.T) {
	start(t, settings{claims: true})
	harness.RunScenarios(t, map[string]func(*testing.T){
		"cheapest node with the devices":  testClaim,
		"devices published late":          testLate,
		"gangs":                           testGangs,
		"no node would help":              testNoNode,
		"preemption or a node":            testPreemption,
		"preemption if no node comes":     testPreemptionDelay,
		"devices of a nominated pod":      testNominated,
		"node of a nominated pod removed": testNominatedRemoved,
		"held devices":                    testHeld,
		"node deleted":                    testDeleted,
		"node drifted":                    testDrifted,
		"nodes consolidated":              testConsolidated,
	})
}

// TestNodesByDefault: Karpenter as shipped passes over pods with claims.
func TestNodesByDefault(t *testing.T) {
	start(t, settings{})
	harness.RunScenarios(t, map[string]func(*testing.T){
		"claims":                      testPassedOver,
		"extended resources":          testExtended,
		"nodes whose number is fixed": testStatic,
		"nodes with claims stay":      testStays,
	})
}
