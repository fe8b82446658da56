package factory

import (
	"unique"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// contents has the parts that objects share. It is safe for concurrent use.
type contents struct {
	capacities    capacities
	requests      table[resourceapi.DeviceRequest]
	constraints   table[resourceapi.DeviceConstraint]
	configs       table[resourceapi.DeviceClaimConfiguration]
	nodeSelectors table[v1.NodeSelector]
}

func newContents() *contents { return &contents{capacities: capacities{most: capacityBytes}} }

// one returns the same text in shared memory, which is freed with its last user.
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

// all applies one to each text of a list.
func all(texts []string) {
	for i := range texts {
		texts[i] = one(texts[i])
	}
}

// trimmed is metadata.managedFields of an object that was already trimmed: empty, but not nil.
var trimmed = []metav1.ManagedFieldsEntry{}

// trimMeta removes managedFields from an object, and makes it share names with others. It returns false if that was
// already done: reflectors transform each object of a first list twice.
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

// keys returns a map with shared keys. It also shares short values, because these often repeat.
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

// longestShared is the greatest length, in bytes, of shared values of labels and annotations.
const longestShared = 63

// claimSpec makes a spec share its parts with equal specs of other claims.
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
