// Package attribute holds the values of device attributes in a form that constraints can compare: for one
// device, and in columns for all devices of a pool.
package attribute

import (
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Value is one value of an attribute in a form that == compares. Versions are compared as strings, because
// semver allows only one spelling.
type Value struct {
	kind kind
	text string
	num  int64
}

type kind uint8

const (
	noKind kind = iota // an unknown type, or a list without the feature
	stringKind
	intKind
	boolKind
	versionKind
)

// A Name is a FullyQualifiedName split into its parts: a driver may publish its own attributes without the
// domain.
type Name struct {
	Full, domain, ID string
}

// NewName splits a name.
func NewName(name resourceapi.FullyQualifiedName) Name {
	domain, id, _ := strings.Cut(string(name), "/")
	return Name{Full: string(name), domain: domain, ID: id}
}

// Lookup returns the attribute of a device, or nil.
func (n *Name) Lookup(device *inventory.Device) *resourceapi.DeviceAttribute {
	if attribute, found := device.Attributes[resourceapi.QualifiedName(n.Full)]; found {
		return &attribute
	}
	if n.ID != "" && n.domain == device.Slice.Spec.Driver {
		if attribute, found := device.Attributes[resourceapi.QualifiedName(n.ID)]; found {
			return &attribute
		}
	}
	return nil
}

// Values returns the values of an attribute: one, or those of a list if lists are supported
// (DRAListTypeAttributes). It returns none if the type is unknown.
func Values(a *resourceapi.DeviceAttribute, lists bool) []Value {
	if lists {
		if list := ListValues(a); len(list) > 0 {
			return list
		}
	}
	switch {
	case a.StringValue != nil:
		return []Value{{kind: stringKind, text: *a.StringValue}}
	case a.IntValue != nil:
		return []Value{{kind: intKind, num: *a.IntValue}}
	case a.BoolValue != nil:
		return []Value{boolValue(*a.BoolValue)}
	case a.VersionValue != nil:
		return []Value{{kind: versionKind, text: *a.VersionValue}}
	}
	return nil
}

// ListValues returns the values of a list, or none if the attribute is no list.
func ListValues(a *resourceapi.DeviceAttribute) []Value {
	var list []Value
	for _, v := range a.IntValues {
		list = append(list, Value{kind: intKind, num: v})
	}
	for _, v := range a.BoolValues {
		list = append(list, boolValue(v))
	}
	for _, v := range a.StringValues {
		list = append(list, Value{kind: stringKind, text: v})
	}
	for _, v := range a.VersionValues {
		list = append(list, Value{kind: versionKind, text: v})
	}
	return list
}

func boolValue(v bool) Value {
	if v {
		return Value{kind: boolKind, num: 1}
	}
	return Value{kind: boolKind}
}

// String returns the value as text.
func (v Value) String() string {
	switch v.kind {
	case intKind:
		return strconv.FormatInt(v.num, 10)
	case boolKind:
		return strconv.FormatBool(v.num == 1)
	}
	return v.text
}

// IsText reports whether the value is a string.
func (v Value) IsText() bool { return v.kind == stringKind }

// IsKnown reports whether the type of the value is known.
func (v Value) IsKnown() bool { return v.kind != noKind }

// A ValueID numbers a value of an attribute, within a column or within a whole search.
type ValueID int32

// OfConstraint returns the attribute of a constraint.
func OfConstraint(c *resourceapi.DeviceConstraint) resourceapi.FullyQualifiedName {
	if c.MatchAttribute != nil {
		return *c.MatchAttribute
	}
	return *c.DistinctAttribute
}
