package allocator

import (
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// value is one value of an attribute in a form that can be compared with ==.
// Versions are compared as strings: semver allows only one spelling.
type value struct {
	kind kind
	text string
	num  int64
}

type kind uint8

const (
	noKind kind = iota // a type that is not known, or a list without the feature
	stringKind
	intKind
	boolKind
	versionKind
)

// attributeName is a FullyQualifiedName taken apart: a driver may publish its own
// attributes without the domain.
type attributeName struct {
	full, domain, id string
}

func newAttributeName(name resourceapi.FullyQualifiedName) attributeName {
	domain, id, _ := strings.Cut(string(name), "/")
	return attributeName{full: string(name), domain: domain, id: id}
}

// lookup returns the attribute of a device, or nil.
func (n *attributeName) lookup(device *inventory.Device) *resourceapi.DeviceAttribute {
	if attribute, found := device.Attributes[resourceapi.QualifiedName(n.full)]; found {
		return &attribute
	}
	if n.id != "" && n.domain == device.Slice.Spec.Driver {
		if attribute, found := device.Attributes[resourceapi.QualifiedName(n.id)]; found {
			return &attribute
		}
	}
	return nil
}

// values returns the values of an attribute: one, or those of a list if lists are
// understood (DRAListTypeAttributes). It is empty if the type is not known.
func values(a *resourceapi.DeviceAttribute, lists bool) []value {
	if lists {
		if list := listValues(a); len(list) > 0 {
			return list
		}
	}
	switch {
	case a.StringValue != nil:
		return []value{{kind: stringKind, text: *a.StringValue}}
	case a.IntValue != nil:
		return []value{{kind: intKind, num: *a.IntValue}}
	case a.BoolValue != nil:
		return []value{boolValue(*a.BoolValue)}
	case a.VersionValue != nil:
		return []value{{kind: versionKind, text: *a.VersionValue}}
	}
	return nil
}

func listValues(a *resourceapi.DeviceAttribute) []value {
	var list []value
	for _, v := range a.IntValues {
		list = append(list, value{kind: intKind, num: v})
	}
	for _, v := range a.BoolValues {
		list = append(list, boolValue(v))
	}
	for _, v := range a.StringValues {
		list = append(list, value{kind: stringKind, text: v})
	}
	for _, v := range a.VersionValues {
		list = append(list, value{kind: versionKind, text: v})
	}
	return list
}

func boolValue(v bool) value {
	if v {
		return value{kind: boolKind, num: 1}
	}
	return value{kind: boolKind}
}

// String is the value as a text.
func (v value) String() string {
	switch v.kind {
	case intKind:
		return strconv.FormatInt(v.num, 10)
	case boolKind:
		return strconv.FormatBool(v.num == 1)
	}
	return v.text
}

// isKnown reports whether the value is of a type that is known.
func (v value) isKnown() bool { return v.kind != noKind }

// valueID is a value of an attribute by its number, in a column or for a whole search.
type valueID int32

// constraintAttribute is the attribute that a constraint is about.
func constraintAttribute(c *resourceapi.DeviceConstraint) resourceapi.FullyQualifiedName {
	if c.MatchAttribute != nil {
		return *c.MatchAttribute
	}
	return *c.DistinctAttribute
}
