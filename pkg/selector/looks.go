package selector

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

// Looks remembers verdicts by the data that expressions read of a device. To an expression, most devices of a
// cluster look the same, even if each has its own name and serial number. So an expression over the devices
// of many new slices is evaluated only a few times. All verdicts must come from the same way of evaluation.
// It is safe for concurrent use.
type Looks struct {
	bound int // bytes

	mutex    sync.RWMutex
	taken    int               // bytes
	asked    map[string]*asked // by expression
	versions map[string]struct{}
}

// DefaultLooks is the default limit of Looks, in bytes.
const DefaultLooks = 1 << 20

// Bounds, because users choose expressions and drivers choose attributes. Whatever exceeds them is forgotten,
// or not remembered.
const (
	maxVerdicts = 256 // more than a slice has devices
	maxLook     = 512 // bytes
	maxVersion  = 64  // bytes
)

// Sizes of the remembered values without their texts, in bytes.
const (
	askedSize   = 1024 // with what it reads
	seenSize    = 160
	versionSize = 48
)

// asked holds the remembered verdicts of an expression.
type asked struct {
	reads *reads // nil if unknown, or if it reads data that differs between most devices
	// verdicts are by the text of the look. Quantities are distinguished as in Contents.
	verdicts map[string][]seen
	// helped reports whether any of the verdicts was used again.
	helped atomic.Bool
}

// seen is the result of an expression for a device: whether it matches, or a runtimeError.
type seen struct {
	quantities []resource.Quantity
	matches    bool
	err        error
}

// look is the data that an expression reads of a device.
type look struct {
	text       []byte
	quantities []resource.Quantity
}

// NewLooks returns empty Looks that take at most bound bytes.
func NewLooks(bound int) *Looks {
	l := &Looks{bound: bound}
	l.forget()
	return l
}

// SetBound changes the limit in bytes.
func (l *Looks) SetBound(bytes int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.bound = bytes
}

// Taken returns the number of bytes that they take.
func (l *Looks) Taken() int {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.taken
}

func (l *Looks) forget() {
	l.asked, l.versions, l.taken = make(map[string]*asked), make(map[string]struct{}), 0
}

// seen returns the result of an expression for a device that looks the same, or nil if it is unknown.
func (l *Looks) seen(expression string, device *cel.Device) *seen {
	if l == nil {
		return nil
	}
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	about := l.asked[expression]
	if about == nil || about.reads == nil || !l.areValues(device.Attributes) {
		return nil
	}
	looks := scratch.Get().(*look)
	defer scratch.Put(looks)
	looks.text, looks.quantities = looks.text[:0], looks.quantities[:0]
	if !looks.at(about.reads, device) {
		return nil
	}
	known := about.find(looks)
	if known != nil && !about.helped.Load() {
		about.helped.Store(true)
	}
	return known
}

// scratch pools the memory of looks.
var scratch = sync.Pool{New: func() any { return new(look) }}

func (a *asked) find(as *look) *seen {
	verdicts := a.verdicts[string(as.text)]
	for i := range verdicts {
		if slices.Equal(verdicts[i].quantities, as.quantities) {
			return &verdicts[i]
		}
	}
	return nil
}

// add remembers the result of a program for a device.
func (l *Looks) add(program *cel.CompilationResult, device *cel.Device, matches bool, err error) {
	if l == nil || program == nil {
		return
	}
	var looks look
	reads := l.readsOf(program)
	if reads == nil || !looks.at(reads, device) || len(looks.text) > maxLook {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.taken > l.bound {
		l.forget()
	}
	l.addVersions(device.Attributes)
	if err != nil && !l.areValues(device.Attributes) {
		return // It may have failed because of a value that it does not read.
	}
	about := l.asked[program.Expression]
	if about == nil || about.find(&looks) != nil {
		return // Forgotten meanwhile, or another goroutine has added it.
	}
	text := string(looks.text)
	l.makeRoom(about, text)
	if about.reads != nil {
		about.verdicts[text] = append(about.verdicts[text], seen{looks.quantities, matches, err})
		l.taken += looks.size(err)
	}
}

// readsOf returns what an expression reads, or nil if its verdicts must not be remembered.
func (l *Looks) readsOf(program *cel.CompilationResult) *reads {
	if reads, known := l.knownReads(program.Expression); known {
		return reads
	}
	reads := readsOf(program) // Without the mutex, because it may take long.
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if about := l.asked[program.Expression]; about != nil {
		return about.reads
	}
	if l.taken > l.bound {
		l.forget()
	}
	l.asked[program.Expression] = &asked{reads: reads, verdicts: make(map[string][]seen)}
	l.taken += askedSize + len(program.Expression) + reads.size()
	return reads
}

func (l *Looks) knownReads(expression string) (r *reads, known bool) {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	about := l.asked[expression]
	if about == nil {
		return nil, false
	}
	return about.reads, true
}

// makeRoom forgets verdicts if there are too many. If none of them was used again, the expression reads data
// that differs between devices, like a serial number, and its verdicts are not remembered any more.
func (l *Looks) makeRoom(about *asked, text string) {
	if len(about.verdicts) < maxVerdicts && len(about.verdicts[text]) < maxVerdicts {
		return
	}
	for text, verdicts := range about.verdicts {
		for i := range verdicts {
			forgotten := look{[]byte(text), verdicts[i].quantities}
			l.taken -= forgotten.size(verdicts[i].err)
		}
	}
	about.verdicts = make(map[string][]seen) // A cleared map would keep its size.
	if !about.helped.Swap(false) {
		about.reads, about.verdicts = nil, nil
	}
}

// size returns the size in bytes of a remembered result for devices with this look.
func (l *look) size(err error) int {
	size := seenSize + len(l.text) + cap(l.quantities)*int(unsafe.Sizeof(resource.Quantity{}))
	if err != nil {
		size += len(err.Error())
	}
	return size
}

// areValues reports whether all attributes are known to have a valid value. If an attribute has no value, or
// an invalid version, expressions fail regardless of what they read.
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

// addVersions records which versions are valid. It skips an attribute with several values, because CEL does
// not look at its version.
func (l *Looks) addVersions(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) {
	for _, attribute := range attributes {
		version := attribute.VersionValue
		if version == nil || hasValue(&attribute) || attribute.VersionValues != nil || len(*version) > maxVersion {
			continue
		}
		if _, known := l.versions[*version]; known {
			continue
		}
		if _, err := semver.Parse(*version); err == nil {
			l.versions[*version] = struct{}{}
			l.taken += versionSize + len(*version)
		}
	}
}

// at appends the data that is read of a device. It returns false for data that is not remembered: lists, and
// an attribute that is published twice, where the expression sees either value.
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

// valueOf returns the attribute or capacity that an expression reads. A name in the driver's domain may also
// be published without the domain; twice reports whether it is published both ways.
func valueOf[T any](values map[resourceapi.QualifiedName]T, of read, driver string) (value T, found, twice bool) {
	name := of.name
	if of.domain == "" {
		name = resourceapi.QualifiedName(driver) + "/" + of.short
	}
	value, found = values[name]
	if of.domain != "" && of.domain != driver {
		return value, found, false
	}
	short, hasShort := values[of.short]
	if !hasShort {
		return value, found, false
	}
	return short, true, found
}

// addAttribute appends a value; of several it takes the one that CEL takes.
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
