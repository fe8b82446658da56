// Package v1alpha has common parts of the types of the alpha versions, which client-go no longer has, so that no code
// is generated for them.
package v1alpha

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// List has the fields of an API list. Types that embed it are lists.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []T `json:"items"`
}

// Copy returns a deep copy of an object or a list. It copies through JSON, which preserves all API objects, and
// panics if the object cannot be encoded.
func Copy[T any](object *T) *T {
	raw, err := json.Marshal(object)
	result := new(T)
	if err == nil {
		err = json.Unmarshal(raw, result)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a %T: it cannot be written as JSON, so it is no object of the API: %v", object, err))
	}
	return result
}
