package allocator_test

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// Each function of this file answers one question about API objects, in the plainest way. The oracle and the
// validity check consist of them. They share no code with the tested code.

// device is a published device.
type device struct {
	*resourceapi.Device
	slice *resourceapi.ResourceSlice
	// key is made once: it is asked for all the time, and slow to make.
	key structured.DeviceID
}

func (d device) id() structured.DeviceID { return d.key }

func (d device) pool() poolKey { return poolOf(d.slice) }

type poolKey struct{ driver, name string }

func poolOf(slice *resourceapi.ResourceSlice) poolKey {
	return poolKey{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// devicesIn lists the devices of slices in their order.
func devicesIn(slices []*resourceapi.ResourceSlice) []device {
	var list []device
	for _, slice := range slices {
		for i := range slice.Spec.Devices {
			list = append(list, device{&slice.Spec.Devices[i], slice, structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name)})
		}
	}
	return list
}

// reaches tells whether the node can use the device.
func reaches(node *v1.Node, d device) bool {
	if ptr.Deref(d.slice.Spec.PerDeviceNodeSelection, false) {
		return nodeMatches(node, d.NodeName, d.AllNodes, d.NodeSelector)
	}
	return nodeMatches(node, d.slice.Spec.NodeName, d.slice.Spec.AllNodes, d.slice.Spec.NodeSelector)
}

func nodeMatches(node *v1.Node, name *string, all *bool, selector *v1.NodeSelector) bool {
	return ptr.Deref(name, "") == node.Name || ptr.Deref(all, false) || selector != nil && selects(selector, node)
}

// malformed reports whether the nodes of a slice cannot be determined.
func malformed(slice *resourceapi.ResourceSlice) bool {
	if slice.Spec.NodeSelector == nil {
		return false
	}
	_, err := nodeaffinity.NewNodeSelector(slice.Spec.NodeSelector)
	return err != nil
}

func selects(selector *v1.NodeSelector, node *v1.Node) bool {
	compiled, err := nodeaffinity.NewNodeSelector(selector)
	if err != nil {
		panic(err)
	}
	return compiled.Match(node)
}

func inCEL(d device) cel.Device {
	return cel.Device{
		Driver: d.slice.Spec.Driver, Attributes: d.Attributes, Capacity: d.Capacity,
		AllowMultipleAllocations: d.AllowMultipleAllocations,
	}
}

// matchesAll evaluates selectors in order until one does not match.
func matchesAll(ctx context.Context, celCache *cel.Cache, d device, selectors []resourceapi.DeviceSelector) (bool, error) {
	for _, selector := range selectors {
		program := celCache.GetOrCompile(selector.CEL.Expression)
		if program.Error != nil {
			return false, program.Error
		}
		matches, _, err := program.DeviceMatches(ctx, inCEL(d))
		if err != nil || !matches {
			return false, err
		}
	}
	return true, nil
}

// untolerated tells whether a taint keeps a request with the tolerations away.
func untolerated(d device, tolerations []resourceapi.DeviceToleration) bool {
	for _, taint := range d.Taints {
		tolerated := slices.ContainsFunc(tolerations, func(t resourceapi.DeviceToleration) bool {
			return resourceclaim.ToleratesTaint(t, taint)
		})
		blocks := taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
		if blocks && !tolerated {
			return true
		}
	}
	return false
}

// attributeFor is an attribute of a device as a wish sees it: what the wish derives
// under that name, else what the driver published, or nil.
func attributeFor(ctx context.Context, celCache *cel.Cache, w *wish, d device, name resourceapi.FullyQualifiedName) (*resourceapi.DeviceAttribute, error) {
	for _, derived := range w.DerivedAttributes {
		if derived.Name != name {
			continue
		}
		program := celCache.GetOrCompileDerivedAttribute(derived.Expression)
		if program.Error != nil {
			return nil, program.Error
		}
		attribute, _, err := program.EvaluateDerivedAttribute(ctx, inCEL(d))
		return attribute, err
	}
	return attributeOf(d, name), nil
}

// attributeOf finds an attribute under its full name, or under the short one that
// a driver may use for its own.
func attributeOf(d device, name resourceapi.FullyQualifiedName) *resourceapi.DeviceAttribute {
	if attribute, found := d.Attributes[resourceapi.QualifiedName(name)]; found {
		return &attribute
	}
	for short, attribute := range d.Attributes {
		if d.slice.Spec.Driver+"/"+string(short) == string(name) {
			return &attribute
		}
	}
	return nil
}

// valuesOf writes the values of an attribute with their type, for example "int 5".
// Lists are of unknown type if they are not understood.
func valuesOf(a resourceapi.DeviceAttribute, lists bool) []string {
	var values []string
	if lists {
		for _, v := range a.IntValues {
			values = append(values, fmt.Sprint("int ", v))
		}
		for _, v := range a.BoolValues {
			values = append(values, fmt.Sprint("bool ", v))
		}
		for _, v := range a.StringValues {
			values = append(values, "string "+v)
		}
		for _, v := range a.VersionValues {
			values = append(values, "version "+v)
		}
	}
	switch {
	case len(values) > 0:
	case a.IntValue != nil:
		values = []string{fmt.Sprint("int ", *a.IntValue)}
	case a.BoolValue != nil:
		values = []string{fmt.Sprint("bool ", *a.BoolValue)}
	case a.StringValue != nil:
		values = []string{"string " + *a.StringValue}
	case a.VersionValue != nil:
		values = []string{"version " + *a.VersionValue}
	}
	return values
}

func intersect(a, b []string) []string {
	var both []string
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}

// nameIn is the attribute that a constraint is about.
func nameIn(constraint resourceapi.DeviceConstraint) resourceapi.FullyQualifiedName {
	if constraint.MatchAttribute != nil {
		return *constraint.MatchAttribute
	}
	return *constraint.DistinctAttribute
}

// satisfies reports whether devices satisfy a constraint together. attributes holds each device's attribute,
// or nil, in the order in which the devices were chosen.
func satisfies(constraint resourceapi.DeviceConstraint, attributes []*resourceapi.DeviceAttribute, lists bool) bool {
	var all [][]string
	for i, attribute := range attributes {
		if attribute == nil {
			return false
		}
		values := valuesOf(*attribute, lists)
		// Upstream looks at the type of the first device's value only if it
		// understands lists.
		if len(values) == 0 && (lists || i > 0) {
			return false
		}
		all = append(all, values)
	}
	if constraint.MatchAttribute != nil {
		return len(all) < 2 || haveCommonValue(all)
	}
	return allDistinct(all)
}

func haveCommonValue(all [][]string) bool {
	common := all[0]
	for _, values := range all[1:] {
		common = intersect(common, values)
	}
	return len(common) > 0
}

func allDistinct(all [][]string) bool {
	for i := range all {
		for _, other := range all[:i] {
			if len(intersect(all[i], other)) > 0 {
				return false
			}
		}
	}
	return true
}

// counters are quantities by counter set and counter.
type counters map[string]map[string]resource.Quantity

// countersIn adds up what slices publish.
func countersIn(slices []*resourceapi.ResourceSlice) counters {
	c := make(counters)
	for _, slice := range slices {
		for _, set := range slice.Spec.SharedCounters {
			c[set.Name] = make(map[string]resource.Quantity)
			for name, counter := range set.Counters {
				c[set.Name][name] = counter.Value.DeepCopy()
			}
		}
	}
	return c
}

// draw takes what devices consume and reports whether no counter is overdrawn.
func (c counters) draw(devices ...device) bool {
	for _, d := range devices {
		for _, consumption := range d.ConsumesCounters {
			for name, counter := range consumption.Counters {
				left := c[consumption.CounterSet][name]
				left.Sub(counter.Value)
				c[consumption.CounterSet][name] = left
			}
		}
	}
	for _, set := range c {
		for _, left := range set {
			if left.Sign() < 0 {
				return false
			}
		}
	}
	return true
}
