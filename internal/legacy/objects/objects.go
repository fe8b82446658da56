// Package objects has what the types of all alpha versions have in common: the versions
// that client-go has no types for any more, so that nothing is generated for them.
package objects

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// List is what a list of the API consists of. Types that embed it are such lists.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []T `json:"items"`
}

// Copy returns a copy of an object or a list that shares nothing with it. It copies by way
// of JSON, which all objects of the API survive, and panics for what cannot be written so.
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
