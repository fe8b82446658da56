package inventory

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// taintRules indexes the DeviceTaintRules (KEP-5055) by the pools that they may apply to, so that a
// change of one rule affects only these pools. It needs the store's mutex; the lists that it
// returns never change.
type taintRules struct {
	byName map[string]*resourceapi.DeviceTaintRule
	// byScope has lists sorted by name, so that the taints of a device do not depend on the order
	// of events.
	byScope map[ruleScope][]*resourceapi.DeviceTaintRule
}

// ruleScope is the part of a rule's selector that selects pools. A field of the selector that is
// not set matches everything (DeviceTaintSelector).
type ruleScope struct {
	PoolID
	anyDriver, anyPool bool
}

func newTaintRules() taintRules {
	return taintRules{byName: make(map[string]*resourceapi.DeviceTaintRule), byScope: make(map[ruleScope][]*resourceapi.DeviceTaintRule)}
}

// scopeOf returns the scope of a rule. A rule without a selector has none, because it matches
// nothing.
func scopeOf(rule *resourceapi.DeviceTaintRule) (scope ruleScope, found bool) {
	if rule == nil || rule.Spec.DeviceSelector == nil {
		return ruleScope{}, false
	}
	selector := rule.Spec.DeviceSelector
	return ruleScope{
		PoolID{Driver: ptr.Deref(selector.Driver, ""), Name: ptr.Deref(selector.Pool, "")},
		selector.Driver == nil, selector.Pool == nil,
	}, true
}

func (s ruleScope) includes(id PoolID) bool {
	return (s.anyDriver || s.Driver == id.Driver) && (s.anyPool || s.Name == id.Name)
}

// replace stores the current state of a rule, nil if it does not exist, and returns the previous
// one.
func (r *taintRules) replace(name string, rule *resourceapi.DeviceTaintRule) (before *resourceapi.DeviceTaintRule) {
	before = r.byName[name]
	if scope, found := scopeOf(before); found {
		if r.byScope[scope] = withoutRule(r.byScope[scope], name); len(r.byScope[scope]) == 0 {
			delete(r.byScope, scope)
		}
	}
	delete(r.byName, name)
	if rule != nil {
		r.byName[name] = rule
	}
	if scope, found := scopeOf(rule); found {
		list := slices.Clone(r.byScope[scope])
		i, _ := slices.BinarySearchFunc(list, name, compareToName)
		r.byScope[scope] = slices.Insert(list, i, rule)
	}
	return before
}

func withoutRule(list []*resourceapi.DeviceTaintRule, name string) []*resourceapi.DeviceTaintRule {
	i, _ := slices.BinarySearchFunc(list, name, compareToName)
	return slices.Delete(slices.Clone(list), i, i+1)
}

func compareToName(rule *resourceapi.DeviceTaintRule, name string) int {
	return cmp.Compare(rule.Name, name)
}

// scopedRules holds the rules that can apply to devices of a pool, one list sorted by name for each
// kind of scope.
type scopedRules [4][]*resourceapi.DeviceTaintRule

// of returns the rules that can apply to devices of the pool.
func (r *taintRules) of(id PoolID) (rules scopedRules) {
	for i, scope := range [len(rules)]ruleScope{
		{PoolID: id}, {PoolID{Driver: id.Driver}, false, true}, {PoolID{Name: id.Name}, true, false}, {anyDriver: true, anyPool: true},
	} {
		rules[i] = r.byScope[scope]
	}
	return rules
}

// all returns the rules, sorted by name.
func (s *scopedRules) all() (rules []*resourceapi.DeviceTaintRule) {
	for _, list := range s {
		rules = merged(rules, list)
	}
	return rules
}

// merged returns all rules of two sorted lists, sorted. It may return one of the lists.
func merged(a, b []*resourceapi.DeviceTaintRule) []*resourceapi.DeviceTaintRule {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b *resourceapi.DeviceTaintRule) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// deviceRules holds the rules of one pool by the device that they select.
type deviceRules struct {
	// general holds the rules for all devices. named maps the name of a device to its rules,
	// including the general ones.
	general []*resourceapi.DeviceTaintRule
	named   map[string][]*resourceapi.DeviceTaintRule
}

func newDeviceRules(rules []*resourceapi.DeviceTaintRule) *deviceRules {
	r := &deviceRules{named: make(map[string][]*resourceapi.DeviceTaintRule)}
	for _, rule := range rules {
		if name := rule.Spec.DeviceSelector.Device; name != nil {
			r.named[*name] = append(r.named[*name], rule)
		} else {
			r.general = append(r.general, rule)
		}
	}
	for name, own := range r.named {
		r.named[name] = merged(own, r.general)
	}
	return r
}

// KeepsAway reports whether a taint keeps claims without a toleration away from its device. The
// effect None does not.
func KeepsAway(taint resourceapi.DeviceTaint) bool {
	return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
}

// withRules returns the published taints of a device plus those of the rules.
func withRules(device *resourceapi.Device, rules *deviceRules) []resourceapi.DeviceTaint {
	taints := device.Taints
	apply, named := rules.named[device.Name]
	if !named {
		apply = rules.general
	}
	for _, rule := range apply {
		// Clip, so that append never writes behind what the driver published.
		taints = append(slices.Clip(taints), rule.Spec.Taint)
	}
	return taints
}
