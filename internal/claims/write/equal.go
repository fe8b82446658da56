package write

import (
	"bytes"
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

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
