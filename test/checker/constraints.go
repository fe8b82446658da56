package checker

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// checkConstraints: the published attributes of the allocated devices meet the
// constraints of the claim. Devices that are not published (anymore) are left out.
func checkConstraints(r *report, s *snapshot, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for i, constraint := range claim.Spec.Devices.Constraints {
		var problem string
		switch {
		case constraint.MatchAttribute != nil:
			problem = checkMatch(constrainedValues(s, claim, constraint.Requests, *constraint.MatchAttribute))
		case constraint.DistinctAttribute != nil:
			problem = checkDistinct(constrainedValues(s, claim, constraint.Requests, *constraint.DistinctAttribute))
		}
		if problem != "" {
			r.violation(ConstraintViolated, claimObject(claim), "constraint #%d: %s", i, problem)
		}
	}
}

// attributeValues are a device's values for the attribute of a constraint.
type attributeValues struct {
	device deviceID
	name   resourceapi.FullyQualifiedName
	// values has one entry for a scalar and several for a list. They include
	// the type, so that 1 and "1" differ. Empty: the device does not have it.
	values sets.Set[string]
}

func (v attributeValues) String() string {
	return fmt.Sprintf("%s has %s", v.device, strings.Join(sets.List(v.values), ","))
}

// constrainedValues returns the values for all allocated devices that are subject to a
// constraint. Derived attributes are computed with CEL during allocation, so
// devices of requests that derive the attribute are left out.
func constrainedValues(s *snapshot, claim *resourceapi.ResourceClaim, requests []string, name resourceapi.FullyQualifiedName) []attributeValues {
	derived := derivedBy(claim, name)
	var all []attributeValues
	for i := range Results(claim) {
		result := &Results(claim)[i]
		base, _, _ := strings.Cut(result.Request, "/")
		applies := len(requests) == 0 || slices.Contains(requests, base) || slices.Contains(requests, result.Request)
		if !applies || derived.Has(result.Request) {
			continue
		}
		device, published := s.device(deviceOf(result))
		if !published {
			continue
		}
		all = append(all, attributeValues{device: deviceOf(result), name: name, values: valuesOf(device, result.Driver, name)})
	}
	return all
}

// derivedBy returns the names (as in results) of the requests and subrequests which
// compute the attribute themselves.
func derivedBy(claim *resourceapi.ResourceClaim, name resourceapi.FullyQualifiedName) sets.Set[string] {
	derives := func(attributes []resourceapi.DeviceDerivedAttribute) bool {
		return slices.ContainsFunc(attributes, func(a resourceapi.DeviceDerivedAttribute) bool { return a.Name == name })
	}
	names := sets.New[string]()
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil && derives(request.Exactly.DerivedAttributes) {
			names.Insert(request.Name)
		}
		for _, sub := range request.FirstAvailable {
			if derives(sub.DerivedAttributes) {
				names.Insert(request.Name + "/" + sub.Name)
			}
		}
	}
	return names
}

// valuesOf looks up an attribute by its full name, or without the domain if that is the
// name of the driver.
func valuesOf(device publishedDevice, driver string, name resourceapi.FullyQualifiedName) sets.Set[string] {
	attribute, found := device.Attributes[resourceapi.QualifiedName(name)]
	if domain, id, _ := strings.Cut(string(name), "/"); !found && domain == driver {
		attribute = device.Attributes[resourceapi.QualifiedName(id)]
	}
	values := sets.New[string]()
	insertAll(values, "int", attribute.IntValues, attribute.IntValue)
	insertAll(values, "bool", attribute.BoolValues, attribute.BoolValue)
	insertAll(values, "string", attribute.StringValues, attribute.StringValue)
	insertAll(values, "version", attribute.VersionValues, attribute.VersionValue)
	return values
}

// insertAll adds the values of one type; an attribute has either a list or a scalar.
func insertAll[T any](values sets.Set[string], kind string, items []T, scalar *T) {
	if scalar != nil {
		values.Insert(fmt.Sprintf("%s %v", kind, *scalar))
	}
	for _, item := range items {
		values.Insert(fmt.Sprintf("%s %v", kind, item))
	}
}

// checkMatch: there is a value which all devices have in common.
func checkMatch(all []attributeValues) string {
	var common sets.Set[string]
	for i, v := range all {
		if v.values.Len() == 0 {
			return fmt.Sprintf("devices must have the same %s, but %s does not have it", v.name, v.device)
		}
		if i == 0 {
			common = v.values
			continue
		}
		common = common.Intersection(v.values)
		if common.Len() == 0 {
			return fmt.Sprintf("devices must have the same %s, but %s", v.name, listValues(all))
		}
	}
	return ""
}

// checkDistinct: no value is found in two devices.
func checkDistinct(all []attributeValues) string {
	seen := sets.New[string]()
	for _, v := range all {
		if v.values.Len() == 0 {
			return fmt.Sprintf("devices must differ in %s, but %s does not have it", v.name, v.device)
		}
		if seen.Intersection(v.values).Len() > 0 {
			return fmt.Sprintf("devices must differ in %s, but %s", v.name, listValues(all))
		}
		seen.Insert(v.values.UnsortedList()...)
	}
	return ""
}

func listValues(all []attributeValues) string {
	var texts []string
	for _, v := range all {
		texts = append(texts, v.String())
	}
	return strings.Join(texts, ", ")
}
