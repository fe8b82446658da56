package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// A DeviceError reports that a request cannot be judged because of the data of one device. Errors of
// selectors have the type selector.Error instead.
type DeviceError struct {
	// Origin names the claim, the request and, if one is involved, the derived attribute.
	Origin string
	// Device is driver/pool/device, Slice the name of its ResourceSlice.
	Device, Slice string
	Err           error
}

func newDeviceError(origin string, pool *inventory.NodePool, device int, err error) *DeviceError {
	published := &pool.Devices[device]
	return &DeviceError{Origin: origin, Device: pool.ID.String() + "/" + published.Name, Slice: published.Slice.Name, Err: err}
}

func (e *DeviceError) Error() string {
	return fmt.Sprintf("%s on %s: %v", e.Origin, selector.Place(e.Device, e.Slice), e.Err)
}

// OnDevice returns the text with only the name of the device.
func (e *DeviceError) OnDevice() string {
	return selector.OnDevice(e.Origin, e.Device, e.Err)
}

// WithoutDevice returns the text without the device. It is equal for all nodes whose devices have the same problem.
func (e *DeviceError) WithoutDevice() string { return fmt.Sprintf("%s: %v", e.Origin, e.Err) }

func (e *DeviceError) Unwrap() error { return e.Err }

// ErrInterrupted marks the error of a search whose context ended.
var ErrInterrupted = errors.New("looking for devices was interrupted")

// doubt returns the first error of a device, request or alternative that the search skipped. Because of it,
// it is unknown whether there is a solution. doubt returns nil if there is no such error, if there is no
// solution even if all requests with errors could be satisfied, or with AsUpstream, which skips nothing.
func (s *Search) doubt() (first error) {
	if s.Settings().AsUpstream {
		return nil
	}
	for _, c := range s.Claims() {
		for i := range c.Slots {
			err := s.doubtOfSlot(&c.Slots[i])
			if err == nil {
				continue
			}
			if first == nil {
				first = err
			}
			if s.doubted == nil {
				s.doubted = make(map[int]bool)
			}
			s.doubted[c.Slots[i].ID] = true
		}
	}
	if first != nil && s.impossible(demand{}, s.Claims()[0], -1) {
		return nil
	}
	return first
}

func (s *Search) doubtOfSlot(slot *task.Slot) error {
	if slot.LeftOut != nil {
		return slot.LeftOut
	}
	for _, r := range slot.Alternatives {
		if err := s.doubtOf(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Search) doubtOf(r *task.Request) error {
	if err := s.refused[r.ID]; err != nil {
		return err
	}
	for pool := range s.pools {
		for device := range s.candidates(r, pool).unjudged.All() {
			return s.candidateError(r, location{pool, device})
		}
	}
	return s.underivable[r.ID]
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}
