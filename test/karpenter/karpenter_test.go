package karpenter

import "testing"

// scenario is a test beside a running Karpenter.
type scenario struct {
	name string
	test func(*testing.T)
}

// TestNodesForClaims: a Karpenter that looks at claims adds and removes nodes, and Quartermaster hands out their devices.
func TestNodesForClaims(t *testing.T) {
	start(t, settings{claims: true})
	runAll(t, []scenario{
		{"cheapest node with the devices", testClaim},
		{"devices published late", testLate},
		{"gangs", testGangs},
		{"no node would help", testNoNode},
		{"preemption or a node", testPreemption},
		{"devices of a nominated pod", testNominated},
		{"node of a nominated pod removed", testNominatedRemoved},
		{"held devices", testHeld},
		{"node deleted", testDeleted},
		{"node drifted", testDrifted},
		{"nodes consolidated", testConsolidated},
	})
}

// TestNodesByDefault: Karpenter as shipped passes over pods with claims.
func TestNodesByDefault(t *testing.T) {
	start(t, settings{})
	runAll(t, []scenario{
		{"claims", testPassedOver},
		{"extended resources", testExtended},
		{"nodes whose number is fixed", testStatic},
		{"nodes with claims stay", testStays},
	})
}

// runAll runs scenarios at the same time, each in a space of its own.
func runAll(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, each := range scenarios {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			each.test(t)
		})
	}
}
