package selector

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/internal/recall"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Set is what a device has to match for a request: all selectors of the class,
// then all of the request itself, in this order.
type Set struct {
	// selectors are those of the request; the class has its own.
	selectors []resourceapi.DeviceSelector
	class     *resourceapi.DeviceClass
	claim     *resourceapi.ResourceClaim
	request   string
	// text is the same for sets of the same expressions, and for no others.
	text string
	// known is where the set's selections are remembered, nil for sets that do not Recur.
	known *recall.Reference[*Selection]
}

// NewSet collects the selectors. All of them must be CEL selectors.
func NewSet(class *resourceapi.DeviceClass, claim *resourceapi.ResourceClaim, request string, selectors []resourceapi.DeviceSelector) Set {
	s := Set{class: class, claim: claim, request: request, selectors: selectors}
	s.text = s.join()
	return s
}

// Recur prepares the set for being selected by again and again. It must not be in use yet.
func (s *Set) Recur() { s.known = recall.NewReference[*Selection](s.question()) }

func (s *Set) question() recall.Question { return recall.Question{Kind: selecting, Text: s.text} }

// selections is where the set's selections are remembered.
func (s *Set) selections() *recall.Reference[*Selection] {
	if s.known != nil {
		return s.known
	}
	return recall.NewReference[*Selection](s.question())
}

// join makes one text of the set's expressions.
func (s *Set) join() string {
	if s.size() == 1 {
		return joined(s.expression(0))
	}
	expressions := make([]string, s.size())
	for i := range expressions {
		expressions[i] = s.expression(i)
	}
	return joined(expressions...)
}

// mark is what the text of several expressions begins with.
const mark = "\x00"

// joined makes one text of expressions so that no two lists have the same: that of
// a single expression is the expression, all others begin with a byte that no
// expression begins with, and give the length of each.
func joined(expressions ...string) string {
	if len(expressions) == 1 && !strings.HasPrefix(expressions[0], mark) {
		return expressions[0]
	}
	length := len(mark)
	for _, expression := range expressions {
		length += len(expression) + len("12345:")
	}
	b := append(make([]byte, 0, length), mark...)
	for _, expression := range expressions {
		b = strconv.AppendInt(b, int64(len(expression)), 10)
		b = append(append(b, ':'), expression...)
	}
	return string(b)
}

// parted undoes joined. A text that joined does not make is one expression.
func parted(text string) (expressions []string) {
	rest, several := strings.CutPrefix(text, mark)
	if !several {
		return []string{text}
	}
	for rest != "" {
		length, after, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(after) {
			return []string{text}
		}
		expressions, rest = append(expressions, after[:n]), after[n:]
	}
	return expressions
}

func (s *Set) size() int { return len(s.class.Spec.Selectors) + len(s.selectors) }

// expression returns the i-th one: first those of the class, then the request's.
func (s *Set) expression(i int) string {
	if n := len(s.class.Spec.Selectors); i >= n {
		return s.selectors[i-n].CEL.Expression
	}
	return s.class.Spec.Selectors[i].CEL.Expression
}

// Text is the same for sets of the same expressions, and for no others. SetOf has it back.
func (s *Set) Text() string { return s.text }

// IsEmpty reports whether there are no expressions, so that every device matches.
func (s *Set) IsEmpty() bool { return s.size() == 0 }

// SetOf returns a set with the expressions of the one that has this text. What its errors say of
// where they come from means nothing: it belongs to no claim.
func SetOf(text string) Set {
	class := new(resourceapi.DeviceClass)
	for _, expression := range parted(text) {
		class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return NewSet(class, new(resourceapi.ResourceClaim), "", nil)
}

// Same reports whether two sets consist of the same expressions.
func (s *Set) Same(other *Set) bool { return s.text == other.text }

// asker says which request of which claim has the expressions.
func (s *Set) asker() string {
	return fmt.Sprintf("claim %s request %s", claimname.Of(s.claim), s.request)
}

// origin says where an expression comes from.
func (s *Set) origin(expression int) string {
	if expression < len(s.class.Spec.Selectors) {
		return fmt.Sprintf("%s selector %d of device class %s", s.asker(), expression, s.class.Name)
	}
	return fmt.Sprintf("%s selector %d", s.asker(), expression-len(s.class.Spec.Selectors))
}

// Error says that a set could not be evaluated for a device, or for any if it wraps
// ErrCompile. Otherwise it wraps ErrRuntime.
type Error struct {
	// Origin is the claim, the request and the number of the selector, in the claim
	// itself or in its class.
	Origin string
	// Request is the beginning of that: the claim and the request.
	Request string
	// Device is the device, as driver/pool/device, Slice the name of its ResourceSlice.
	Device, Slice string
	Err           error
}

func (e *Error) Error() string {
	if errors.Is(e.Err, ErrCompile) {
		return e.WithoutDevice()
	}
	return fmt.Sprintf("%s on %s: %v", e.Origin, Place(e.Device, e.Slice), e.Err)
}

// Place says where a device is published, in words. Slices that nobody has published may
// have no name.
func Place(device, slice string) string {
	if slice == "" {
		return "device " + device
	}
	return "device " + device + " of slice " + slice
}

// OnDevice is the text with no more of the place than the name of the device: that of its pool often is another one on each
// node, and equal nodes are to have equal reasons.
func (e *Error) OnDevice() string {
	if errors.Is(e.Err, ErrCompile) {
		return e.WithoutDevice()
	}
	return OnDevice(e.Origin, e.Device, e.Err)
}

// OnDevice says of what comes from somewhere, such as a selector, what is wrong with it on a device, given as driver/pool/device.
func OnDevice(origin, device string, err error) string {
	return fmt.Sprintf("%s on device %s: %v", origin, device[strings.LastIndex(device, "/")+1:], err)
}

// WithoutDevice is the text without the device, which is the same for all nodes
// whose devices have the same problem.
func (e *Error) WithoutDevice() string {
	var broken compileError
	if errors.As(e.Err, &broken) {
		return fmt.Sprintf("%s does not compile: %s", e.Origin, string(broken))
	}
	return fmt.Sprintf("%s: %v", e.Origin, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Error returns why the set could not be evaluated for a device in Failed.
func (s Set) Error(pool *inventory.NodePool, selection *Selection, device int) *Error {
	return s.errorOf(pool, device, selection.failureOf(device))
}

func (s Set) errorOf(pool *inventory.NodePool, device int, f failure) *Error {
	return &Error{
		Origin: s.origin(f.expression), Request: s.asker(),
		Device: pool.ID.String() + "/" + pool.Devices[device].Name,
		Slice:  pool.Devices[device].Slice.Name,
		Err:    f.err,
	}
}

// Select returns which devices of the pool match the set. Selectors are tried in
// order and a device is done with the first that it does not match, so a later
// selector may rely on an earlier one. Where no device is left, it is not evaluated:
// what it costs is of no concern to devices of other classes. Select fails only if
// the context ends, or with a Pending if the context has a Budget.
func (e *Evaluator) Select(ctx context.Context, pool *inventory.NodePool, s Set) (*Selection, error) {
	subject, known := &pool.Content.Subject, s.selections()
	if selection, found := known.Get(e.memory, subject); found {
		return selection, nil
	}
	if s.size() == 1 {
		selection, err := e.overPool(ctx, pool, s.expression(0), bitset.Full(len(pool.Devices)))
		if err != nil {
			return nil, s.explain(err, 0)
		}
		// Nothing is added if it is that of the only slice.
		return known.Put(e.memory, subject, selection), nil
	}
	selection := newSelection(len(pool.Devices), true)
	for i := range s.size() {
		v, err := e.overPool(ctx, pool, s.expression(i), selection.Matches)
		if err != nil {
			return nil, s.explain(err, i)
		}
		for device := range v.Failed.All() {
			if selection.Matches.Has(device) {
				selection.fail(device, len(pool.Devices), failure{i, v.failureOf(device).err})
			}
		}
		selection.Matches.And(v.Matches)
	}
	return known.Put(e.memory, subject, selection), nil
}

// explain says which expression is Pending, if that is what the error says.
func (s Set) explain(err error, expression int) error {
	var pending *Pending
	if errors.As(err, &pending) {
		pending.set, pending.expression = &s, expression
	}
	return err
}
