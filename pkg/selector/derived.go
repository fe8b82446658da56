package selector

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"unsafe"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// derivation holds the attributes that an expression derives from the devices of a slice.
type derivation struct {
	attributes []*resourceapi.DeviceAttribute // nil for devices without the attribute
	errors     []error                        // nil if there are none
}

// Derive returns the attribute that an expression derives from a device (DeviceDerivedAttribute), or nil if
// it derives none. Like a selector, the expression is evaluated once for devices that look the same. The
// error wraps ErrCompile or ErrRuntime, or the cause of the context's end; it is a Pending if the context has
// a Budget that is exhausted.
func (e *Evaluator) Derive(ctx context.Context, device *inventory.Device, expression string) (*resourceapi.DeviceAttribute, error) {
	all, err := e.derivation(ctx, device.Slice, question{expression: expression, derives: true})
	if err != nil {
		return nil, err
	}
	at := position(device)
	if all.errors != nil && all.errors[at] != nil {
		return nil, all.errors[at]
	}
	return all.attributes[at], nil
}

func (e *Evaluator) derivation(ctx context.Context, slice *inventory.Slice, q question) (*derivation, error) {
	if sheet := q.derivations(e.memory); sheet != nil {
		if known, found := sheet.Get(&slice.Content.Subject); found {
			return known, nil
		}
	}
	j := &judgement{slice: slice, question: q}
	if err := e.judge(ctx, j); err != nil {
		return nil, err
	}
	return e.keepDerivation(j), nil
}

func (q question) derivations(m *memo.Memory) *memo.Table[*derivation] {
	return memo.Find[*derivation](m, q.asDerived())
}

func (e *Evaluator) keepDerivation(j *judgement) *derivation {
	sheet := memo.Open[*derivation](e.memory, j.asDerived())
	d := &derivation{attributes: j.attributes, errors: j.errors}
	for device, err := range d.errors {
		if err != nil {
			d.errors[device] = sheet.Error(err, manyErrors)
		}
	}
	return sheet.Put(&j.slice.Content.Subject, d)
}

// position returns the index of a device in its slice.
func position(device *inventory.Device) int {
	devices := device.Slice.Spec.Devices
	for i := range devices {
		if &devices[i] == device.Device {
			return i
		}
	}
	panic(fmt.Sprintf("device %s is none of its slice %s", device.Name, device.Slice.Name))
}

// attribute returns the attribute that an expression derives from a device, see verdict.
func (e *Evaluator) attribute(ctx context.Context, x *lazyProgram, device *cel.Device) (*resourceapi.DeviceAttribute, error) {
	if x.program == nil {
		x.program = e.compileDerived(x.text)
	}
	if x.program.err != nil {
		return nil, x.program.err
	}
	e.evaluations.Add(1)
	attribute, err := e.derive(ctx, x.program.v1, *device)
	if err != nil {
		return nil, newRuntimeError(err)
	}
	return attribute, nil
}

func deriveAttribute(ctx context.Context, program *cel.CompilationResult, device cel.Device) (*resourceapi.DeviceAttribute, error) {
	attribute, _, err := program.EvaluateDerivedAttribute(ctx, device)
	return attribute, err
}

// Alike implements memo.Finding.
func (d *derivation) Alike(other *derivation) bool {
	return slices.Equal(d.errors, other.errors) && equality.Semantic.DeepEqual(d.attributes, other.attributes)
}

// Hash implements memo.Finding.
func (d *derivation) Hash() uint64 {
	var hash maphash.Hash
	hash.SetSeed(seed)
	for i, attribute := range d.attributes {
		maphash.WriteComparable(&hash, i)
		if attribute == nil {
			continue
		}
		if encoded, err := attribute.Marshal(); err == nil {
			_, _ = hash.Write(encoded)
		}
	}
	return hash.Sum64()
}

// textsOf returns the elements of the attribute's lists of texts.
func textsOf(attribute *resourceapi.DeviceAttribute) []*string {
	var list []*string
	for _, texts := range [][]string{attribute.StringValues, attribute.VersionValues} {
		for i := range texts {
			list = append(list, &texts[i])
		}
	}
	return list
}

// Size implements memo.Finding. It excludes the errors, which the sheet counts.
func (d *derivation) Size() int {
	const word = int(unsafe.Sizeof(uintptr(0)))
	size := int(unsafe.Sizeof(*d)) + word*cap(d.attributes) + 2*word*cap(d.errors)
	for _, attribute := range d.attributes {
		if attribute == nil {
			continue
		}
		size += int(unsafe.Sizeof(*attribute)) + word*(cap(attribute.IntValues)+2*cap(attribute.StringValues)+2*cap(attribute.VersionValues)) +
			cap(attribute.BoolValues) + 2*word
		for _, text := range append([]*string{attribute.StringValue, attribute.VersionValue}, textsOf(attribute)...) {
			if text != nil {
				size += len(*text)
			}
		}
	}
	return size
}
