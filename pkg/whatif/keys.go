package whatif

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// object is a pointer to an API object.
type object[T any] interface {
	*T
	metav1.Object
}

// byKey returns a map of objects by namespace/name.
func byKey[T any, P object[T]](all []*T) map[string]*T {
	result := make(map[string]*T, len(all))
	for _, one := range all {
		result[Key(P(one))] = one
	}
	return result
}

func poolOf(slice *resourceapi.ResourceSlice) inventory.PoolID {
	return inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: resourceapi.GroupName, Resource: resource}, name)
}

// isOwnedBy reports whether a claim was made for a pod and is deleted with it.
func isOwnedBy(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return metav1.IsControlledBy(claim, pod)
}

// and returns the objects of both; the second object of the same key wins.
func (o Objects) and(more Objects) Objects {
	return Objects{
		Nodes:      append(o.Nodes[:len(o.Nodes):len(o.Nodes)], more.Nodes...),
		Slices:     latest(o.Slices, more.Slices),
		Claims:     append(o.Claims[:len(o.Claims):len(o.Claims)], more.Claims...),
		Templates:  append(o.Templates[:len(o.Templates):len(o.Templates)], more.Templates...),
		Classes:    append(o.Classes[:len(o.Classes):len(o.Classes)], more.Classes...),
		TaintRules: latest(o.TaintRules, more.TaintRules),
		Pods:       append(o.Pods[:len(o.Pods):len(o.Pods)], more.Pods...),
		Missing:    append(o.Missing[:len(o.Missing):len(o.Missing)], more.Missing...),
	}
}

// lastOfName removes named objects that a later object of the same name replaces.
func lastOfName[T any, P object[T]](all []*T) []*T {
	last := byKey[T, P](all)
	return slices.DeleteFunc(slices.Clone(all), func(one *T) bool {
		key := Key(P(one))
		return key != "" && last[key] != one
	})
}

// latest returns both lists, without those objects of the first that the second replaces by name.
func latest[T any, P object[T]](before, after []*T) []*T {
	replaced := byKey[T, P](after)
	var all []*T
	for _, one := range before {
		if _, gone := replaced[Key(P(one))]; !gone {
			all = append(all, one)
		}
	}
	return append(all, after...)
}
