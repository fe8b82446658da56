package v1alpha2

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// storable returns parameters of a vendor in the form that a server gives them when it
// applies a patch: keys sorted, numbers as Go writes them.
//
// An allocation cannot be changed, and for that servers compare these parameters byte by
// byte. A patch of anything else in the status brings them into this form, so it is
// refused unless they have it already. The scheduler of 1.30 adds consumers by patches.
func storable(parameters runtime.RawExtension) runtime.RawExtension {
	if len(parameters.Raw) == 0 {
		return runtime.RawExtension{}
	}
	var value any
	if err := utiljson.Unmarshal(parameters.Raw, &value); err != nil {
		return parameters // The server has never seen it as an object.
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return parameters
	}
	return runtime.RawExtension{Raw: raw}
}
