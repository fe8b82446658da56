package catalogue

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// The causes that scenarios expect. The dialects below have their wording. No name of a namespace or a claim may
// contain one of these texts.
const (
	// devicesHeld: enough devices match, but other claims hold too many of them.
	devicesHeld scenario.Cause = "devices held by other claims"
	// notAllFree: the request asks for all matching devices, and some are held.
	notAllFree scenario.Cause = "not all devices free"
	// tooFewDevices: no node has enough matching devices.
	tooFewDevices scenario.Cause = "too few devices"
	// noDeviceMatches: no device satisfies the selectors.
	noDeviceMatches scenario.Cause = "no device matches"
	// noAlternativeFits: none of the alternatives of firstAvailable can be allocated.
	noAlternativeFits scenario.Cause = "no alternative fits"
	// constraintUnmet: no choice of free devices satisfies a constraint.
	constraintUnmet scenario.Cause = "constraint unmet"
	// devicesTainted: the free devices have taints that the request does not tolerate.
	devicesTainted scenario.Cause = "devices tainted"
	// devicesNotReady: the devices are allocated, and are being prepared.
	devicesNotReady scenario.Cause = "devices not ready"
	// capacityUsedUp: other shares leave too little of a capacity.
	capacityUsedUp scenario.Cause = "capacity used up"
	// countersUsedUp: devices in use leave too little of a counter.
	countersUsedUp scenario.Cause = "counters used up"
	// nodeFull: the node has too little left of a resource such as CPU.
	nodeFull scenario.Cause = "node full"
	// poolIncomplete: slices of the pool are missing.
	poolIncomplete scenario.Cause = "pool incomplete"
	// poolInvalid: the slices of the pool contradict each other.
	poolInvalid scenario.Cause = "pool invalid"
	// notReachable: the claim is allocated for nodes that the pod cannot use.
	notReachable scenario.Cause = "claim allocated elsewhere"
	// tooManyDevices: the claim asks for more devices than a claim can hold.
	tooManyDevices scenario.Cause = "more devices than a claim can hold"
	// classMissing: a device class does not exist.
	classMissing scenario.Cause = "class missing"
	// claimMissing: a claim does not exist.
	claimMissing scenario.Cause = "claim missing"
	// claimDeleted: a claim is being deleted.
	claimDeleted scenario.Cause = "claim being deleted"
	// claimNotGenerated: a claim was not made from its template yet.
	claimNotGenerated scenario.Cause = "claim not generated"
	// groupTooLarge: not all pods of a group that must run together fit.
	groupTooLarge scenario.Cause = "too little for all pods of the group"
	// celFails: a CEL expression fails at run time.
	celFails scenario.Cause = "CEL fails at run time"
)

// Messages of a kube-scheduler without the plugin. The plugin's messages contain them, and more.
const (
	noAllocation = "cannot allocate all claims"
	invalidPools = "invalid resource pools were encountered"
	notOnNode    = "resourceclaim not available on the node"
)

// Quartermaster returns the dialect of this project's plugin.
func Quartermaster() scenario.Dialect {
	return scenario.Dialect{
		Name:         "quartermaster",
		NamesClaim:   true,
		NamesRequest: true,
		Quotable:     true,
		Texts: map[scenario.Cause][]string{
			devicesHeld:       {noAllocation, "match", "held by"},
			notAllFree:        {noAllocation, "devices match: all asked", "free"},
			tooFewDevices:     {noAllocation, "devices match:", "asked"},
			noDeviceMatches:   {noAllocation, "no device matches"},
			noAlternativeFits: {noAllocation, "no alternative fits", "held by"},
			constraintUnmet:   {noAllocation, "devices asked that"},
			devicesTainted:    {noAllocation, "taint", "not tolerated"},
			devicesNotReady:   {"are not ready", "lacks"},
			capacityUsedUp:    {noAllocation, "too little capacity left"},
			countersUsedUp:    {noAllocation, "counters that have too little left"},
			nodeFull:          {"Insufficient"},
			poolIncomplete:    {noAllocation, "left out because", "updating"},
			poolInvalid:       {invalidPools, "left out as invalid"},
			notReachable:      {notOnNode, "is allocated on other nodes"},
			tooManyDevices:    {"a claim can have at most 32"},
			classMissing:      {"does not exist"},
			claimMissing:      {"does not exist"},
			claimDeleted:      {"is being deleted"},
			claimNotGenerated: {"has not been created yet"},
			groupTooLarge:     {"group ", "pods fit"},
			celFails:          {"CEL runtime error"},
		},
	}
}

// Stock returns the dialect of kube-scheduler 1.37 without the plugin. Its messages have less information, do not
// always name claim or request, and say nothing about missing or deleted claims.
func Stock() scenario.Dialect {
	return scenario.Dialect{
		Name: "stock",
		Texts: map[scenario.Cause][]string{
			devicesHeld:       {noAllocation},
			notAllFree:        {noAllocation},
			tooFewDevices:     {noAllocation},
			noDeviceMatches:   {noAllocation},
			noAlternativeFits: {noAllocation},
			constraintUnmet:   {noAllocation},
			devicesTainted:    {noAllocation},
			devicesNotReady:   {"waiting for binding conditions"},
			capacityUsedUp:    {noAllocation},
			countersUsedUp:    {noAllocation},
			nodeFull:          {"Insufficient"},
			poolIncomplete:    {noAllocation},
			poolInvalid:       {invalidPools},
			notReachable:      {notOnNode},
			tooManyDevices:    {"exceeds the claim limit of 32"},
			classMissing:      {"does not exist"},
			celFails:          {"CEL runtime error"},
		},
	}
}

// DialectNamed returns the dialect with a name.
func DialectNamed(name string) (scenario.Dialect, error) {
	for _, dialect := range []scenario.Dialect{Quartermaster(), Stock()} {
		if dialect.Name == name {
			return dialect, nil
		}
	}
	return scenario.Dialect{}, fmt.Errorf("there is no dialect of reasons %q; use quartermaster or stock", name)
}
