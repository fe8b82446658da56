package selector

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unique"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/claimname"
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
	// key is the same for sets of the same expressions.
	key unique.Handle[string]
}

// NewSet collects the selectors. All of them must be CEL selectors.
func NewSet(class *resourceapi.DeviceClass, claim *resourceapi.ResourceClaim, request string, selectors []resourceapi.DeviceSelector) Set {
	s := Set{class: class, claim: claim, request: request, selectors: selectors}
	s.key = unique.Make(s.join())
	return s
}

// join makes one text of the expressions so that no two sets have the same: that of
// a single expression is the expression, all others begin with a byte that no
// expression begins with, and give the length of each.
func (s *Set) join() string {
	const mark = "\x00"
	length := len(mark)
	for i := range s.size() {
		length += len(s.expression(i)) + len("12345:")
	}
	if s.size() == 1 && !strings.HasPrefix(s.expression(0), mark) {
		return s.expression(0)
	}
	b := append(make([]byte, 0, length), mark...)
	for i := range s.size() {
		b = strconv.AppendInt(b, int64(len(s.expression(i))), 10)
		b = append(append(b, ':'), s.expression(i)...)
	}
	return string(b)
}

func (s *Set) size() int { return len(s.class.Spec.Selectors) + len(s.selectors) }

// expression returns the i-th one: first those of the class, then the request's.
func (s *Set) expression(i int) string {
	if n := len(s.class.Spec.Selectors); i >= n {
		return s.selectors[i-n].CEL.Expression
	}
	return s.class.Spec.Selectors[i].CEL.Expression
}

// Same reports whether two sets consist of the same expressions.
func (s *Set) Same(other *Set) bool { return s.key == other.key }

// origin says where an expression comes from.
func (s *Set) origin(expression int) string {
	if expression < len(s.class.Spec.Selectors) {
		return fmt.Sprintf("claim %s, request %s, selector %d of device class %s", claimname.Of(s.claim), s.request, expression, s.class.Name)
	}
	return fmt.Sprintf("claim %s, request %s, selector %d", claimname.Of(s.claim), s.request, expression-len(s.class.Spec.Selectors))
}

// Selection is the outcome of a set for the devices of a pool. It is immutable.
type Selection struct {
	// Matches are the devices that match all selectors.
	Matches bitset.Set
	// Failed are the devices for which a selector could not be evaluated.
	Failed bitset.Set

	failures map[int]failure
}

type failure struct {
	expression int // which of the set's
	err        error
}

// Error says that a set could not be evaluated for a device, or for any if it wraps
// ErrCompile. Otherwise it wraps ErrRuntime.
type Error struct {
	// Origin is the claim, the request and the number of the selector, in the claim
	// itself or in its class.
	Origin string
	// Device is the device, as driver/pool/device, Slice the name of its ResourceSlice.
	Device, Slice string
	Err           error
}

func (e *Error) Error() string {
	if errors.Is(e.Err, ErrCompile) {
		return e.WithoutDevice()
	}
	return fmt.Sprintf("%s, on %s: %v", e.Origin, Place(e.Device, e.Slice), e.Err)
}

// Place says where a device is published, in words. Slices that nobody has published may
// have no name.
func Place(device, slice string) string {
	if slice == "" {
		return "device " + device
	}
	return "device " + device + " of slice " + slice
}

// WithoutDevice is the text without the device, which is the same for all nodes
// whose devices have the same problem.
func (e *Error) WithoutDevice() string {
	var broken *compileError
	if errors.As(e.Err, &broken) {
		return fmt.Sprintf("%s does not compile: %s", e.Origin, broken.message())
	}
	return fmt.Sprintf("%s: %v", e.Origin, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Error returns why the set could not be evaluated for a device in Failed.
func (s Set) Error(pool *inventory.NodePool, selection *Selection, device int) *Error {
	return s.errorOf(pool, device, selection.failures[device])
}

func (s Set) errorOf(pool *inventory.NodePool, device int, f failure) *Error {
	return &Error{
		Origin: s.origin(f.expression),
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
	if cached := pool.Content.Selections.Get(s.key); cached != nil {
		return cached.(*Selection), nil
	}
	selection := &Selection{Matches: bitset.Full(len(pool.Devices)), Failed: bitset.New(len(pool.Devices))}
	for i := range s.size() {
		v, err := e.overPool(ctx, pool, s.expression(i), selection.Matches)
		if err != nil {
			var pending *Pending
			if errors.As(err, &pending) {
				pending.set, pending.expression = s, i
			}
			return nil, err
		}
		for device, err := range v.errors {
			if selection.Matches.Has(device) {
				selection.Failed.Add(device)
				if selection.failures == nil {
					selection.failures = make(map[int]failure)
				}
				selection.failures[device] = failure{i, err}
			}
		}
		selection.Matches.And(v.matches)
	}
	return pool.Content.Selections.Put(s.key, selection).(*Selection), nil
}
