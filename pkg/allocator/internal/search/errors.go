package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// DeviceError says that a request cannot be judged because of what one device is like. Errors
// of selectors are of type selector.Error instead.
type DeviceError struct {
	// Origin is the claim, the request and, if it is about one, the derived attribute.
	Origin string
	// Device is the device, as driver/pool/device, Slice the name of its ResourceSlice.
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

// OnDevice is the text with no more than the name of the device.
func (e *DeviceError) OnDevice() string {
	return selector.OnDevice(e.Origin, e.Device, e.Err)
}

// WithoutDevice is the text without the device, which is the same for all nodes whose
// devices have the same problem.
func (e *DeviceError) WithoutDevice() string { return fmt.Sprintf("%s: %v", e.Origin, e.Err) }

func (e *DeviceError) Unwrap() error { return e.Err }

// ErrInterrupted marks the error of a search whose context ended.
var ErrInterrupted = errors.New("looking for devices was interrupted")

func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}
