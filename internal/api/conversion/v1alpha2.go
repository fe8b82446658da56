package conversion

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
)

func alpha2ClaimToHub(in *v1alpha2.ResourceClaim, out *resourceapi.ResourceClaim) error {
	hub, err := v1alpha2.ToHub(in)
	if err != nil {
		return err
	}
	*out = *hub
	fields := AlphaClaim{
		Allocator: ByClass,
		Classes:   []string{in.Spec.ResourceClassName},
		Immediate: in.Spec.AllocationMode == v1alpha2.Immediate,
	}
	if allocation := in.Status.Allocation; allocation != nil {
		fields.Exclusive = !allocation.Shareable
		fields.DeallocationRequested = in.Status.DeallocationRequested
		fields.Allocator = ByController
		if slices.Contains(in.Finalizers, v1alpha2.Finalizer) {
			fields.Allocator = ByScheduler
		}
	}
	SetAlphaClaim(out, fields)
	return nil
}

func alpha2ClaimFromHub(in *resourceapi.ResourceClaim, out *v1alpha2.ResourceClaim) error {
	old, err := v1alpha2.FromHub(in)
	if err != nil {
		return err
	}
	*out = *old
	DropAlpha(out)
	// A writer that clears the allocation does not know the fields that belong to it.
	out.Status.DeallocationRequested = out.Status.Allocation != nil && AlphaClaimOf(in).DeallocationRequested
	return nil
}

func alpha2TemplateToHub(in *v1alpha2.ResourceClaimTemplate, out *resourceapi.ResourceClaimTemplate) error {
	out.ObjectMeta = in.ObjectMeta
	out.Spec.ObjectMeta = in.Spec.ObjectMeta
	out.Spec.Spec = v1alpha2.SpecToHub(&in.Spec.Spec)
	return nil
}

func alpha2TemplateFromHub(in *resourceapi.ResourceClaimTemplate, out *v1alpha2.ResourceClaimTemplate) error {
	spec, err := v1alpha2.SpecFromHub(&in.Spec.Spec)
	if err != nil {
		return fmt.Errorf("claim template %s/%s: %w", in.Namespace, in.Name, err)
	}
	out.ObjectMeta = in.ObjectMeta
	out.Spec.ObjectMeta = in.Spec.ObjectMeta
	out.Spec.Spec = *spec
	return nil
}

// alpha2ClassToHub returns a class without selectors, because the requests of claims have all selectors.
func alpha2ClassToHub(in *v1alpha2.ResourceClass, out *resourceapi.DeviceClass) error {
	out.ObjectMeta = in.ObjectMeta
	SetAlphaClass(out, AlphaClass{SuitableNodes: in.SuitableNodes, Structured: in.IsStructured()})
	return nil
}

func alpha2ClassFromHub(in *resourceapi.DeviceClass, _ *v1alpha2.ResourceClass) error {
	return readOnly("deviceclasses", in.Name, "v1alpha2")
}

func alpha2SliceToHub(in *v1alpha2.ResourceSlice, out *resourceapi.ResourceSlice) error {
	hub, err := v1alpha2.SliceToHub(in)
	if err != nil {
		return err
	}
	*out = *hub
	return nil
}

func alpha2SliceFromHub(in *resourceapi.ResourceSlice, _ *v1alpha2.ResourceSlice) error {
	return readOnly("resourceslices", in.Name, "v1alpha2")
}

func readOnly(resource, name, version string) error {
	return fmt.Errorf("asked to write %q of %s; the API server has them in version %s: that version can only be read here; use a client for it", name, resource, version)
}
