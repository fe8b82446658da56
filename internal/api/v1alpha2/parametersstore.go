package v1alpha2

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Parameters has the known classes and parameters of a server. It is safe for concurrent use; objects in it must not
// change any more.
type Parameters struct {
	Classes         cache.Store   // of *ResourceClass
	ClassParameters cache.Indexer // of *ResourceClassParameters
	ClaimParameters cache.Indexer // of *ResourceClaimParameters
}

// byOrigin is the index of parameters by the vendor's object that they were generated from, see origin.
const byOrigin = "generatedFrom"

// NewParameters returns an empty store.
func NewParameters() *Parameters {
	return &Parameters{
		Classes: cache.NewStore(cache.MetaNamespaceKeyFunc),
		ClassParameters: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byOrigin: func(object any) ([]string, error) {
			parameters, is := object.(*ResourceClassParameters)
			if !is || parameters.GeneratedFrom == nil {
				return nil, nil
			}
			return []string{origin(*parameters.GeneratedFrom, "")}, nil
		}}),
		ClaimParameters: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byOrigin: func(object any) ([]string, error) {
			parameters, is := object.(*ResourceClaimParameters)
			if !is || parameters.GeneratedFrom == nil {
				return nil, nil
			}
			return []string{origin(parameters.GeneratedFrom.withoutNamespace(), parameters.Namespace)}, nil
		}}),
	}
}

// origin identifies a vendor's object that parameters were generated from. Parameters of claims only match in the
// claim's namespace (within), those of classes everywhere.
func origin(ref ParametersReference, within string) string {
	return fmt.Sprintf("%q", []string{ref.APIGroup, ref.Kind, ref.Namespace, ref.Name, within})
}

// Class returns a class, nil if there is none.
func (p *Parameters) Class(name string) *ResourceClass {
	class, _, _ := p.Classes.GetByKey(name)
	found, _ := class.(*ResourceClass)
	return found
}

// named returns parameters by their name, nil if there are none.
func named[T any](all cache.Indexer, namespace, name string) *T {
	object, _, _ := all.GetByKey(namespace + "/" + name)
	found, _ := object.(*T)
	return found
}

// generated returns parameters by their origin, nil if there are none: the first ones by name, if there are several.
func generated[T any](all cache.Indexer, origin string) *T {
	objects, err := all.ByIndex(byOrigin, origin)
	if err != nil || len(objects) == 0 {
		return nil
	}
	first := slices.MinFunc(objects, func(a, b any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	found, _ := first.(*T)
	return found
}

// keyOf sorts objects by namespace, then by name.
func keyOf(object any) string {
	accessor, _ := object.(metav1.Object)
	return accessor.GetNamespace() + "\x00" + accessor.GetName()
}
