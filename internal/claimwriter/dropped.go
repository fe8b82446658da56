package claimwriter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// isPartial says, of a claim with another allocation than the wanted one, whether this
// call has sent that, and a part of it was lost: it is reserved for the consumer and has
// the same devices. API servers drop fields that they do not know, or whose feature gate is off there,
// without an error.
func (b *binding) isPartial(current *resourceapi.ResourceClaim) bool {
	return b.sent && current.Status.Allocation != nil && IsReservedFor(current, b.consumer.UID) &&
		sameDevices(current.Status.Allocation, b.allocation)
}

// refusePartial remembers what is to be rolled back.
func (b *binding) refusePartial(current *resourceapi.ResourceClaim) *refusal {
	b.partial = current
	return &refusal{
		reason: ErrNotStored,
		found:  fmt.Sprintf("that the server has accepted that but stored it without %s", listSome(lost(b.allocation, current.Status.Allocation))),
		next:   "turn the feature on in the API server (its version may be too old for it) or use devices that do not need it",
	}
}

// rollBack undoes the write of an allocation that was not stored as sent. Nobody may use
// it: what is missing may be the very thing that keeps others off, or tells the driver
// what to do.
func (w *Writer) rollBack(ctx context.Context, b *binding, err error) error {
	if b.partial == nil {
		return err
	}
	ctx = Because(ctx, Cause{Why: "because the API server has not stored all of it"})
	if _, undo := w.Release(ctx, b.partial, b.consumer.UID); undo != nil {
		return errors.Join(err, fmt.Errorf("and it could not be rolled back: %w", undo))
	}
	return err
}

func sameDevices(a, b *resourceapi.AllocationResult) bool {
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(a, b resourceapi.DeviceRequestAllocationResult) bool {
		return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device
	})
}

// lost names the fields that are in what was sent and not the same in what was stored, as
// the paths of the API, sorted.
func lost(sent, stored *resourceapi.AllocationResult) []string {
	paths := make(map[string]bool)
	collectLost(paths, "status.allocation", asJSON(canonical(sent)), asJSON(canonical(stored)))
	return slices.Sorted(maps.Keys(paths))
}

func asJSON(allocation *resourceapi.AllocationResult) any {
	var value any
	if raw, err := json.Marshal(allocation); err == nil {
		_ = json.Unmarshal(raw, &value) // It is what Marshal has made.
	}
	return value
}

// collectLost goes down to the fields that are different. Elements of a list share one
// path.
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
