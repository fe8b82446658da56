package slim

import (
	"unique"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// contents has what objects share. It is safe for concurrent use.
type contents struct {
	capacities    capacities
	requests      table[resourceapi.DeviceRequest]
	constraints   table[resourceapi.DeviceConstraint]
	configs       table[resourceapi.DeviceClaimConfiguration]
	nodeSelectors table[v1.NodeSelector]
}

func newContents() *contents { return &contents{capacities: capacities{most: capacityBytes}} }

// one returns the same text, in memory that all who ask for it share as long as anybody has it.
func one[T ~string](text T) T {
	if text == "" {
		return text
	}
	return unique.Make(text).Value()
}

func pointed(text *string) *string {
	if text == nil {
		return nil
	}
	shared := one(*text)
	return &shared
}

// all is one for each of a list.
func all(texts []string) {
	for i := range texts {
		texts[i] = one(texts[i])
	}
}

// trimmed is what metadata.managedFields is of an object that was trimmed before: empty, but not nil.
var trimmed = []metav1.ManagedFieldsEntry{}

// trimMeta drops who wrote an object, and has it share names with others. It returns false if that was done before: reflectors
// transform each object of a first list twice.
func trimMeta(meta *metav1.ObjectMeta) bool {
	if meta.ManagedFields != nil && len(meta.ManagedFields) == 0 {
		return false
	}
	meta.ManagedFields = trimmed
	meta.Namespace = one(meta.Namespace)
	meta.Labels, meta.Annotations = keys(meta.Labels), keys(meta.Annotations)
	all(meta.Finalizers)
	for i := range meta.OwnerReferences {
		owner := &meta.OwnerReferences[i]
		owner.APIVersion, owner.Kind = one(owner.APIVersion), one(owner.Kind)
	}
	return true
}

// keys returns a map with shared keys. Values that are short are often the same as well.
func keys(of map[string]string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	next := make(map[string]string, len(of))
	for key, value := range of {
		if len(value) <= longestShared {
			value = one(value)
		}
		next[one(key)] = value
	}
	return next
}

// longestShared is how many bytes a value of a label or annotation may have to be looked for among others.
const longestShared = 63

// claimSpec has a spec share all it points to with that of other claims.
func (c *contents) claimSpec(spec *resourceapi.ResourceClaimSpec) {
	of := &spec.Devices
	of.Requests = list(&c.requests, &resourceapi.DeviceClaim{Requests: of.Requests}, of.Requests)
	of.Constraints = list(&c.constraints, &resourceapi.DeviceClaim{Constraints: of.Constraints}, of.Constraints)
	of.Config = list(&c.configs, &resourceapi.DeviceClaim{Config: of.Config}, of.Config)
}

func (c *contents) nodeSelector(selector *v1.NodeSelector) *v1.NodeSelector {
	if selector == nil {
		return nil
	}
	return c.nodeSelectors.get(selector, selector)
}
