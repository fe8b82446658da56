package compat

import "testing"

// feature is a part of the API that releases have behind a feature gate.
type feature struct {
	name string
	// since is the first minor release of Kubernetes 1 that has it, on the first one that
	// has it on by default.
	since, on uint
}

// What releases have, by their kube_features.go. In 1.31 admin access has no gate of its own.
var (
	deviceStatus      = feature{"status.devices", 32, 33}
	adminAccess       = feature{"admin access", 32, 34}
	alternatives      = feature{"alternatives in requests", 33, 34}
	deviceTaints      = feature{"taints of devices", 33, 36}
	partitions        = feature{"devices that share counters", 33, 36}
	consumable        = feature{"capacity that claims share", 34, 36}
	bindingConditions = feature{"binding conditions", 34, 36}
	extendedResources = feature{"extended resources of classes", 34, 36}
)

// known reports whether the release has the feature.
func (f feature) known() bool { return minor >= f.since }

// needs skips a test of a feature that the release does not have.
func needs(t *testing.T, f feature) {
	t.Helper()
	if !f.known() {
		t.Skipf("Kubernetes 1.%d does not have %s, which came with 1.%d", minor, f.name, f.since)
	}
	if byDefault && minor < f.on {
		t.Skipf("%s is off by default, as this run has it", f.name)
	}
}

// isOff skips a test of what happens while a feature is off, unless the release knows it and
// has it off by default.
func isOff(t *testing.T, f feature) {
	t.Helper()
	if !byDefault || !f.known() || minor >= f.on {
		t.Skipf("for releases that have %s off by default, as they are (%s)", f.name, defaultsVariable)
	}
}
