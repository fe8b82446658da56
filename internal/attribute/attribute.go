// Package attribute has the values of devices' attributes, as constraints compare them: one
// device at a time, and in columns for all devices of a pool.
package attribute

import (
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Value is one value of an attribute in a form that can be compared with ==.
// Versions are compared as strings: semver allows only one spelling.
type Value struct {
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

// Name is a FullyQualifiedName taken apart: a driver may publish its own
// attributes without the domain.
type Name struct {
	Full, domain, ID string
}

// NewName takes a name apart.
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

// Values returns the values of an attribute: one, or those of a list if lists are
// understood (DRAListTypeAttributes). It is empty if the type is not known.
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

// ListValues returns the values of a list, none if the attribute has no list.
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

// String is the value as a text.
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

// IsKnown reports whether the value is of a type that is known.
func (v Value) IsKnown() bool { return v.kind != noKind }

// ValueID is a value of an attribute by its number, in a column or for a whole search.
type ValueID int32

// OfConstraint is the attribute that a constraint is about.
func OfConstraint(c *resourceapi.DeviceConstraint) resourceapi.FullyQualifiedName {
	if c.MatchAttribute != nil {
		return *c.MatchAttribute
	}
	return *c.DistinctAttribute
}
