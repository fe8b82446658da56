package selector

import (
	"encoding/binary"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

// Looks remembers verdicts by what expressions read of a device: most devices of a cluster
// look the same to an expression, even if they have names and serial numbers of their own.
// So an expression that is asked about the devices of many new slices is evaluated a few
// times. All must be evaluated in the same way. It is safe for concurrent use.
//
// It only knows whether devices match: an expression that fails is evaluated each time.
type Looks struct {
	mutex    sync.RWMutex
	asked    map[string]*asked // by expression
	versions map[string]struct{}
}

// Users choose expressions, drivers attributes. What is beyond these bounds is forgotten,
// or not remembered.
const (
	maxAsked    = 64
	maxVerdicts = 64
	maxVersions = 256
	maxLook     = 512 // bytes
	maxVersion  = 64  // bytes
)

// asked is what is known of an expression.
type asked struct {
	reads *reads // nil if nobody knows
	// verdicts are by look. Quantities are told apart like those of Contents.
	verdicts map[string][]seen
}

type seen struct {
	quantities []resource.Quantity
	matches    bool
}

// look is what an expression reads of a device.
type look struct {
	text       []byte
	quantities []resource.Quantity
}

// NewLooks returns one that knows nothing yet.
func NewLooks() *Looks {
	return &Looks{asked: make(map[string]*asked), versions: make(map[string]struct{})}
}

// verdict returns whether a device matches an expression, if that was found out about one
// that looks the same.
func (l *Looks) verdict(expression string, device *cel.Device) (matches, known bool) {
	if l == nil {
		return false, false
	}
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	about := l.asked[expression]
	if about == nil || about.reads == nil || !l.areValues(device.Attributes) {
		return false, false
	}
	var text [256]byte
	var quantities [4]resource.Quantity
	seenAs := look{text[:0], quantities[:0]}
	if !seenAs.at(about.reads, device) {
		return false, false
	}
	for _, s := range about.verdicts[string(seenAs.text)] {
		if slices.Equal(s.quantities, seenAs.quantities) {
			return s.matches, true
		}
	}
	return false, false
}

// add remembers what came of evaluating a program for a device.
func (l *Looks) add(program *cel.CompilationResult, device *cel.Device, matches bool) {
	if l == nil || program == nil {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.addVersions(device.Attributes)
	about := l.asked[program.Expression]
	if about == nil {
		if len(l.asked) >= maxAsked {
			clear(l.asked)
		}
		about = &asked{reads: readsOf(program), verdicts: make(map[string][]seen)}
		l.asked[program.Expression] = about
	}
	var seenAs look
	if about.reads == nil || !seenAs.at(about.reads, device) || len(seenAs.text) > maxLook {
		return
	}
	if len(about.verdicts) >= maxVerdicts || len(about.verdicts[string(seenAs.text)]) >= maxVerdicts {
		clear(about.verdicts)
	}
	key := string(seenAs.text)
	about.verdicts[key] = append(about.verdicts[key], seen{seenAs.quantities, matches})
}

// areValues reports whether it is known that all attributes have a value. If one has none,
// or a version that is none, expressions fail whatever they read.
func (l *Looks) areValues(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
	for _, attribute := range attributes {
		switch {
		case attribute.VersionValue == nil && attribute.VersionValues == nil:
			if !hasValue(&attribute) {
				return false
			}
		case attribute.VersionValues != nil:
			return false
		default:
			if _, known := l.versions[*attribute.VersionValue]; !known {
				return false
			}
		}
	}
	return true
}

func hasValue(a *resourceapi.DeviceAttribute) bool {
	return a.StringValue != nil || a.IntValue != nil || a.BoolValue != nil ||
		a.StringValues != nil || a.IntValues != nil || a.BoolValues != nil
}

// addVersions notes what is a version, after expressions did not fail because of it. If an
// attribute has more than one value, the version was not looked at.
func (l *Looks) addVersions(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) {
	for _, attribute := range attributes {
		version := attribute.VersionValue
		if version == nil || hasValue(&attribute) || attribute.VersionValues != nil || len(*version) > maxVersion {
			continue
		}
		if len(l.versions) >= maxVersions {
			clear(l.versions)
		}
		l.versions[*version] = struct{}{}
	}
}

// at appends what is read of a device. It returns false for what is not remembered: lists,
// and an attribute that there is twice, of which an expression sees any.
func (l *look) at(r *reads, device *cel.Device) bool {
	l.addText(device.Driver)
	l.addBool(ptr.Deref(device.AllowMultipleAllocations, false))
	for _, of := range r.attributes {
		attribute, found, twice := valueOf(device.Attributes, of, device.Driver)
		if twice || !l.addAttribute(attribute, found) {
			return false
		}
	}
	for _, of := range r.capacities {
		capacity, found, twice := valueOf(device.Capacity, of, device.Driver)
		if twice {
			return false
		}
		l.addBool(found)
		l.quantities = append(l.quantities, capacity.Value)
	}
	return true
}

// valueOf returns what an expression reads: something in the driver's domain may also have
// a name without it.
func valueOf[T any](values map[resourceapi.QualifiedName]T, of read, driver string) (value T, found, twice bool) {
	value, found = values[of.name]
	if of.domain != driver {
		return value, found, false
	}
	short, hasShort := values[of.short]
	if !hasShort {
		return value, found, false
	}
	return short, true, found
}

// addAttribute takes the value that CEL takes if there are several.
func (l *look) addAttribute(a resourceapi.DeviceAttribute, found bool) bool {
	switch {
	case !found:
		l.text = append(l.text, 'n')
	case a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil:
		return false
	case a.IntValue != nil:
		l.text = binary.LittleEndian.AppendUint64(append(l.text, 'i'), uint64(*a.IntValue))
	case a.BoolValue != nil:
		l.addBool(*a.BoolValue)
	case a.StringValue != nil:
		l.text = append(l.text, 's')
		l.addText(*a.StringValue)
	case a.VersionValue != nil:
		l.text = append(l.text, 'v')
		l.addText(*a.VersionValue)
	default:
		return false
	}
	return true
}

func (l *look) addText(text string) {
	l.text = append(binary.AppendUvarint(l.text, uint64(len(text))), text...)
}

func (l *look) addBool(value bool) {
	if value {
		l.text = append(l.text, '1')
	} else {
		l.text = append(l.text, '0')
	}
}
