package factory

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Informers reduces the memory of a factory's informers for nodes, ResourceSlices and ResourceClaims. None of them
// may have been started, and the one for ResourceSlices must not exist yet. kube-scheduler needs all of these anyway,
// and trims pods itself.
func Informers(factory informers.SharedInformerFactory) error {
	c := newContents()
	for name, trimmed := range map[string]struct {
		informer cache.SharedIndexInformer
		trim     cache.TransformFunc
	}{
		"nodes":          {factory.Core().V1().Nodes().Informer(), transform(c.node)},
		"ResourceSlices": {lazySlices(factory), transform(c.slice)},
		"ResourceClaims": {factory.Resource().V1().ResourceClaims().Informer(), transform(c.claim)},
	} {
		if err := trimmed.informer.SetTransform(trimmed.trim); err != nil {
			return fmt.Errorf("save memory on %s: %w", name, err)
		}
	}
	return nil
}

// transform returns a cache.TransformFunc from a function for objects of one kind. Other objects, for example
// tombstones, stay unchanged. It may be called twice for the same object.
func transform[T any](trim func(*T)) cache.TransformFunc {
	return func(obj any) (any, error) {
		if object, ok := obj.(*T); ok {
			trim(object)
		}
		return obj, nil
	}
}

func (c *contents) node(node *v1.Node) {
	if !trimMeta(&node.ObjectMeta) {
		return
	}
	for i := range node.Status.Images { // Most nodes have the same images.
		all(node.Status.Images[i].Names)
	}
}

func (c *contents) slice(slice *resourceapi.ResourceSlice) {
	if !trimMeta(&slice.ObjectMeta) {
		return
	}
	slice.Spec.Driver, slice.Spec.Pool.Name = one(slice.Spec.Driver), one(slice.Spec.Pool.Name)
	slice.Spec.NodeName = pointed(slice.Spec.NodeName)
	all := devices{contents: c}
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		device.NodeName = pointed(device.NodeName)
		all.share(device)
	}
}

func (c *contents) claim(claim *resourceapi.ResourceClaim) {
	if !trimMeta(&claim.ObjectMeta) {
		return
	}
	c.claimSpec(&claim.Spec)
	allocation := claim.Status.Allocation
	if allocation == nil {
		return
	}
	allocation.NodeSelector = c.nodeSelector(allocation.NodeSelector)
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		result.Request, result.Driver, result.Pool = one(result.Request), one(result.Driver), one(result.Pool)
	}
	for i := range claim.Status.ReservedFor {
		claim.Status.ReservedFor[i].Resource = one(claim.Status.ReservedFor[i].Resource)
	}
}
