package write

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// isPartial reports whether the claim's allocation, which is not the wanted one, is an incomplete
// copy of an allocation that this call sent: the claim is reserved for the consumer and has the
// same devices. API servers drop fields that they do not know, or whose feature gate is off there,
// without an error.
func (b *binding) isPartial(current *resourceapi.ResourceClaim) bool {
	return b.sent && current.Status.Allocation != nil && IsReservedFor(current, b.consumer.UID) &&
		sameDevices(current.Status.Allocation, b.allocation)
}

// refusePartial records the claim for rollBack.
func (b *binding) refusePartial(current *resourceapi.ResourceClaim) *refusal {
	b.partial = current
	return &refusal{
		reason: ErrNotStored,
		found:  fmt.Sprintf("that the server has accepted that but stored it without %s", listSome(lost(b.allocation, current.Status.Allocation))),
		next:   "turn the feature on in the API server (its version may be too old for it) or use devices that do not need it",
	}
}

// rollBack undoes the write of an allocation that was not stored completely. No pod may use it: the
// missing part may be the one that keeps others off, or that tells the driver what to do.
func (w *Writer) rollBack(ctx context.Context, b *binding, err error) error {
	if b.partial == nil {
		return err
	}
	ctx = Because(ctx, Cause{Why: "because the API server has not stored all of it"})
	// Another process may have allocated the same devices to the pod before, and bound it.
	unbound, undo := w.Ask(ctx, b.partial, b.consumer)
	if undo == nil {
		_, undo = w.Release(ctx, b.partial, unbound)
	}
	if undo != nil {
		return errors.Join(err, fmt.Errorf("and it could not be rolled back: %w", undo))
	}
	return err
}

func sameDevices(a, b *resourceapi.AllocationResult) bool {
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(a, b resourceapi.DeviceRequestAllocationResult) bool {
		return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device
	})
}

// lost returns the fields of the sent allocation that are missing or different in the stored one,
// as sorted API paths.
func lost(sent, stored *resourceapi.AllocationResult) []string {
	paths := make(map[string]bool)
	collectLost(paths, "status.allocation", asJSON(canonical(sent)), asJSON(canonical(stored)))
	return slices.Sorted(maps.Keys(paths))
}

func asJSON(allocation *resourceapi.AllocationResult) any {
	var value any
	if raw, err := json.Marshal(allocation); err == nil {
		_ = json.Unmarshal(raw, &value) // It cannot fail for the output of Marshal.
	}
	return value
}

// collectLost collects the paths of the fields that differ. Elements of a list share one path.
func collectLost(paths map[string]bool, path string, sent, stored any) {
	switch sent := sent.(type) {
	case map[string]any:
		other, ok := stored.(map[string]any)
		if !ok {
			paths[path] = true
			return
		}
		for key, value := range sent {
			collectLost(paths, path+"."+key, value, other[key])
		}
	case []any:
		other, ok := stored.([]any)
		if !ok || len(other) != len(sent) {
			paths[path] = true
			return
		}
		for i, value := range sent {
			collectLost(paths, path+"[]", value, other[i])
		}
	default:
		if sent != stored {
			paths[path] = true
		}
	}
}

// SameAllocation reports whether two allocations mean the same, so that one that was sent to the
// server is recognised when it comes back. It ignores the timestamp, defaults that the server fills
// in, and the formatting of opaque parameters.
func SameAllocation(a, b *resourceapi.AllocationResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	return quantity.DeepEqual(canonical(a), canonical(b))
}

// canonical returns a copy of the allocation in comparable form.
func canonical(allocation *resourceapi.AllocationResult) *resourceapi.AllocationResult {
	c := allocation.DeepCopy()
	c.AllocationTimestamp = nil
	for i := range c.Devices.Results {
		tolerations := c.Devices.Results[i].Tolerations
		for j := range tolerations {
			if tolerations[j].Operator == "" {
				tolerations[j].Operator = resourceapi.DeviceTolerationOpEqual
			}
		}
	}
	for i := range c.Devices.Config {
		if opaque := c.Devices.Config[i].Opaque; opaque != nil {
			opaque.Parameters.Raw = canonicalJSON(opaque.Parameters.Raw)
		}
	}
	return c
}

// canonicalJSON returns the same JSON value without insignificant white space, with sorted keys and
// uniform escapes. Invalid JSON is returned unchanged. Numbers keep their text, so 1 and 1.0
// differ.
func canonicalJSON(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return raw
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return encoded
}
