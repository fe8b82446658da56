package v1alpha2

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// storable returns vendor parameters in the form in which a server writes them when it applies a patch: with sorted
// keys, and numbers as Go formats them.
//
// An allocation is immutable, and servers compare its parameters byte by byte. A patch of any other status field
// converts the parameters to this form, so the server refuses the patch if they had another form. The scheduler of
// 1.30 adds consumers by patches.
func storable(parameters runtime.RawExtension) runtime.RawExtension {
	if len(parameters.Raw) == 0 {
		return runtime.RawExtension{}
	}
	var value any
	if err := utiljson.Unmarshal(parameters.Raw, &value); err != nil {
		return parameters // The server has never decoded it as an object.
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return parameters
	}
	return runtime.RawExtension{Raw: raw}
}
