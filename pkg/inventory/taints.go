package inventory

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// sortRules returns the rules by name, so that the taints of a device do not
// depend on the order of events.
func sortRules(rules []*resourceapi.DeviceTaintRule) []*resourceapi.DeviceTaintRule {
	sorted := slices.Clone(rules)
	slices.SortFunc(sorted, func(a, b *resourceapi.DeviceTaintRule) int { return cmp.Compare(a.Name, b.Name) })
	return sorted
}

// ruleMatchesPool reports whether a rule can apply to devices of the pool. A rule
// without selector matches nothing; a field of the selector that is not set
// matches everything (DeviceTaintSelector).
func ruleMatchesPool(rule *resourceapi.DeviceTaintRule, id PoolID) bool {
	selector := rule.Spec.DeviceSelector
	return selector != nil &&
		(selector.Driver == nil || *selector.Driver == id.Driver) &&
		(selector.Pool == nil || *selector.Pool == id.Name)
}

// withRules returns the taints of a device, given the rules that match its pool.
func withRules(device *resourceapi.Device, rules []*resourceapi.DeviceTaintRule) []resourceapi.DeviceTaint {
	taints := device.Taints
	for _, rule := range rules {
		if name := rule.Spec.DeviceSelector.Device; name != nil && *name != device.Name {
			continue
		}
		// Clip, so that append never writes behind what the driver published.
		taints = append(slices.Clip(taints), rule.Spec.Taint)
	}
	return taints
}

// sameRules reports whether the rules for the pool are the same in both lists.
func sameRules(id PoolID, before, after []*resourceapi.DeviceTaintRule) bool {
	matching := func(rules []*resourceapi.DeviceTaintRule) []*resourceapi.DeviceTaintRule {
		var result []*resourceapi.DeviceTaintRule
		for _, rule := range rules {
			if ruleMatchesPool(rule, id) {
				result = append(result, rule)
			}
		}
		return result
	}
	return slices.Equal(matching(before), matching(after))
}
