package selector

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Set holds the selectors that a device must match for a request: first all selectors of the class, then
// all of the request.
type Set struct {
	// selectors are those of the request; those of the class are in class.
	selectors []resourceapi.DeviceSelector
	class     *resourceapi.DeviceClass
	claim     *resourceapi.ResourceClaim
	request   string
	// text is equal for sets of the same expressions only.
	text string
	// known refers to the set's remembered selections; it is nil before Recur.
	known *memo.Reference[*Selection]
}

// NewSet returns the set of the selectors. All of them must be CEL selectors.
func NewSet(class *resourceapi.DeviceClass, claim *resourceapi.ResourceClaim, request string, selectors []resourceapi.DeviceSelector) Set {
	s := Set{class: class, claim: claim, request: request, selectors: selectors}
	s.text = s.join()
	return s
}

// Recur prepares the set for repeated selections. The set must not be in use yet.
func (s *Set) Recur() { s.known = memo.NewReference[*Selection](s.question()) }

func (s *Set) question() memo.Key { return memo.Key{Kind: selecting, Text: s.text} }

// selections returns a reference to the set's remembered selections.
func (s *Set) selections() *memo.Reference[*Selection] {
	if s.known != nil {
		return s.known
	}
	return memo.NewReference[*Selection](s.question())
}

// join returns one text for the set's expressions.
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

// mark is the prefix of the text of several expressions.
const mark = "\x00"

// joined returns one text for a list of expressions, different for each list. For a single expression it is
// the expression. Otherwise it begins with a byte that no expression begins with, and gives the length of
// each expression.
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

// parted reverses joined. A text that joined does not make is one expression.
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

// expression returns the i-th expression: first those of the class, then those of the request.
func (s *Set) expression(i int) string {
	if n := len(s.class.Spec.Selectors); i >= n {
		return s.selectors[i-n].CEL.Expression
	}
	return s.class.Spec.Selectors[i].CEL.Expression
}

// Text returns a text that is equal for sets of the same expressions only. SetOf reverses it.
func (s *Set) Text() string { return s.text }

// IsEmpty reports whether there are no expressions, so that every device matches.
func (s *Set) IsEmpty() bool { return s.size() == 0 }

// SetOf returns a set with the expressions of the set with this text. The set belongs to no claim, so the
// origins in its errors mean nothing.
func SetOf(text string) Set {
	class := new(resourceapi.DeviceClass)
	for _, expression := range parted(text) {
		class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return NewSet(class, new(resourceapi.ResourceClaim), "", nil)
}

// Same reports whether two sets consist of the same expressions.
func (s *Set) Same(other *Set) bool { return s.text == other.text }

// asker names the claim and the request that have the expressions.
func (s *Set) asker() string {
	return fmt.Sprintf("claim %s request %s", dra.Of(s.claim), s.request)
}

// origin names the claim, the request and the selector of an expression.
func (s *Set) origin(expression int) string {
	if expression < len(s.class.Spec.Selectors) {
		return fmt.Sprintf("%s selector %d of device class %s", s.asker(), expression, s.class.Name)
	}
	return fmt.Sprintf("%s selector %d", s.asker(), expression-len(s.class.Spec.Selectors))
}

// An Error reports that a set could not be evaluated for a device, or for any device if it wraps ErrCompile.
// Otherwise it wraps ErrRuntime.
type Error struct {
	// Origin names the claim, the request and the number of the selector, in the claim itself or in its class.
	Origin string
	// Request is the prefix of Origin with the claim and the request.
	Request string
	// Device is driver/pool/device, Slice the name of its ResourceSlice.
	Device, Slice string
	Err           error
}

func (e *Error) Error() string {
	if errors.Is(e.Err, ErrCompile) {
		return e.WithoutDevice()
	}
	return fmt.Sprintf("%s on %s: %v", e.Origin, Place(e.Device, e.Slice), e.Err)
}

// Place describes where a device is published. Slices that are not published may have no name.
func Place(device, slice string) string {
	if slice == "" {
		return "device " + device
	}
	return "device " + device + " of slice " + slice
}

// OnDevice returns the text with only the name of the device. The name of its pool often differs between
// nodes, and equal nodes should have equal reasons.
func (e *Error) OnDevice() string {
	if errors.Is(e.Err, ErrCompile) {
		return e.WithoutDevice()
	}
	return OnDevice(e.Origin, e.Device, e.Err)
}

// OnDevice describes an error of origin, for example a selector, on a device, given as driver/pool/device.
func OnDevice(origin, device string, err error) string {
	return fmt.Sprintf("%s on device %s: %v", origin, device[strings.LastIndex(device, "/")+1:], err)
}

// WithoutDevice returns the text without the device. It is equal for all nodes whose devices have the same problem.
func (e *Error) WithoutDevice() string {
	var broken compileError
	if errors.As(e.Err, &broken) {
		return fmt.Sprintf("%s does not compile: %s", e.Origin, string(broken))
	}
	return fmt.Sprintf("%s: %v", e.Origin, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Error returns the reason why the set could not be evaluated for a device in Failed.
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

// Select returns which devices of the pool match the set. It tries selectors in order, and each device only
// until the first that it does not match, so a later selector may rely on an earlier one. It skips slices
// without remaining devices, so that the cost of a selector does not affect devices of other classes. Select
// fails only if the context ends, or with a Pending if the context has a Budget.
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
		// This adds nothing if it is the selection of the only slice.
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

// explain adds the set and the expression to a Pending.
func (s Set) explain(err error, expression int) error {
	var pending *Pending
	if errors.As(err, &pending) {
		pending.set, pending.expression = &s, expression
	}
	return err
}
