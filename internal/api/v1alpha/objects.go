// Package v1alpha has common parts of the types of the alpha versions, which client-go no longer has, so that no code
// is generated for them.
package v1alpha

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// List is an API list.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []T `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *List[T]) DeepCopyObject() runtime.Object { return Copy(l) }

// Register registers a type and its lists in a version, under the name of the type.
func Register[T any, P interface {
	*T
	runtime.Object
}](scheme *runtime.Scheme, version schema.GroupVersion) {
	name := reflect.TypeFor[T]().Name()
	scheme.AddKnownTypeWithName(version.WithKind(name), P(new(T)))
	scheme.AddKnownTypeWithName(version.WithKind(name+"List"), new(List[T]))
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
