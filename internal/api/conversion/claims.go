package conversion

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

func alpha3ClaimToHub(in *v1alpha3.ResourceClaim, out *resourceapi.ResourceClaim) error {
	out.ObjectMeta = in.ObjectMeta
	alpha3SpecToHub(&in.Spec, &out.Spec)
	out.Status = resourceapi.ResourceClaimStatus{ReservedFor: in.Status.ReservedFor, Devices: in.Status.Devices}
	fields := AlphaClaim{Controller: in.Spec.Controller}
	controller := in.Spec.Controller
	if allocation := in.Status.Allocation; allocation != nil {
		out.Status.Allocation = alpha3AllocationToHub(allocation, out.Spec.Devices.Requests)
		controller = allocation.Controller
		fields.AllocatedBy = controller
		fields.DeallocationRequested = in.Status.DeallocationRequested
	}
	if controller != "" {
		fields.Allocator = ByController
		fields.Classes = alpha3Classes(&in.Spec)
	}
	SetAlphaClaim(out, fields)
	return nil
}

// alpha3Classes returns the classes of a claim, each once. It ignores alternatives, because releases that have them
// have no allocating controllers.
func alpha3Classes(spec *v1alpha3.ResourceClaimSpec) []string {
	var classes []string
	for i := range spec.Devices.Requests {
		if class := spec.Devices.Requests[i].DeviceClassName; !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
	return classes
}

// alpha3ClaimFromHub drops fields that belong to an allocation if there is none: a writer that clears the allocation
// of a hub claim does not know these fields, and the API server requires it.
func alpha3ClaimFromHub(in *resourceapi.ResourceClaim, out *v1alpha3.ResourceClaim) error {
	fields := AlphaClaimOf(in)
	out.ObjectMeta = in.ObjectMeta
	DropAlpha(out)
	alpha3SpecFromHub(&in.Spec, &out.Spec)
	out.Spec.Controller = fields.Controller
	out.Status = v1alpha3.ResourceClaimStatus{ReservedFor: in.Status.ReservedFor, Devices: in.Status.Devices}
	if allocation := in.Status.Allocation; allocation != nil {
		out.Status.Allocation = alpha3AllocationFromHub(allocation)
		out.Status.Allocation.Controller = fields.AllocatedBy
		out.Status.DeallocationRequested = fields.DeallocationRequested
	}
	return nil
}

func alpha3TemplateToHub(in *v1alpha3.ResourceClaimTemplate, out *resourceapi.ResourceClaimTemplate) error {
	out.ObjectMeta = in.ObjectMeta
	out.Spec.ObjectMeta = in.Spec.ObjectMeta
	set(&out.Spec.ObjectMeta, AlphaClaim{Controller: in.Spec.Spec.Controller})
	alpha3SpecToHub(&in.Spec.Spec, &out.Spec.Spec)
	return nil
}

func alpha3TemplateFromHub(in *resourceapi.ResourceClaimTemplate, out *v1alpha3.ResourceClaimTemplate) error {
	var fields AlphaClaim
	read(in.Spec.Annotations, &fields)
	out.ObjectMeta = in.ObjectMeta
	out.Spec.ObjectMeta = in.Spec.ObjectMeta
	DropAlpha(&out.Spec.ObjectMeta)
	alpha3SpecFromHub(&in.Spec.Spec, &out.Spec.Spec)
	out.Spec.Spec.Controller = fields.Controller
	return nil
}

func alpha3RequestToHub(in *v1alpha3.DeviceRequest) resourceapi.DeviceRequest {
	out := resourceapi.DeviceRequest{Name: in.Name, FirstAvailable: in.FirstAvailable}
	if len(in.FirstAvailable) == 0 || in.DeviceClassName != "" {
		out.Exactly = &resourceapi.ExactDeviceRequest{
			DeviceClassName: in.DeviceClassName,
			Selectors:       in.Selectors,
			AllocationMode:  in.AllocationMode,
			Count:           in.Count,
			AdminAccess:     in.AdminAccess,
			Tolerations:     in.Tolerations,
		}
	}
	return out
}

func alpha3SpecToHub(in *v1alpha3.ResourceClaimSpec, out *resourceapi.ResourceClaimSpec) {
	out.Devices = resourceapi.DeviceClaim{Config: in.Devices.Config}
	for i := range in.Devices.Requests {
		out.Devices.Requests = append(out.Devices.Requests, alpha3RequestToHub(&in.Devices.Requests[i]))
	}
	for _, constraint := range in.Devices.Constraints {
		out.Devices.Constraints = append(out.Devices.Constraints,
			resourceapi.DeviceConstraint{Requests: constraint.Requests, MatchAttribute: constraint.MatchAttribute})
	}
}

// alpha3SpecFromHub keeps alternatives. A server before 1.33 drops them, and refuses the rest.
func alpha3SpecFromHub(in *resourceapi.ResourceClaimSpec, out *v1alpha3.ResourceClaimSpec) {
	out.Devices = v1alpha3.DeviceClaim{Config: in.Devices.Config}
	for i := range in.Devices.Requests {
		request := v1alpha3.DeviceRequest{Name: in.Devices.Requests[i].Name, FirstAvailable: in.Devices.Requests[i].FirstAvailable}
		if exactly := in.Devices.Requests[i].Exactly; exactly != nil {
			request.DeviceClassName = exactly.DeviceClassName
			request.Selectors = exactly.Selectors
			request.AllocationMode = exactly.AllocationMode
			request.Count = exactly.Count
			request.AdminAccess = exactly.AdminAccess
			request.Tolerations = exactly.Tolerations
		}
		out.Devices.Requests = append(out.Devices.Requests, request)
	}
	for i := range in.Devices.Constraints {
		constraint := &in.Devices.Constraints[i]
		out.Devices.Constraints = append(out.Devices.Constraints,
			v1alpha3.DeviceConstraint{Requests: constraint.Requests, MatchAttribute: constraint.MatchAttribute})
	}
}

func alpha3AllocationToHub(in *v1alpha3.AllocationResult, requests []resourceapi.DeviceRequest) *resourceapi.AllocationResult {
	out := &resourceapi.AllocationResult{NodeSelector: in.NodeSelector}
	out.Devices.Config = in.Devices.Config
	for _, result := range in.Devices.Results {
		admin := result.AdminAccess
		if admin == nil {
			admin = alpha3AdminAccess(requests, result.Request)
		}
		out.Devices.Results = append(out.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: result.Request, Driver: result.Driver, Pool: result.Pool, Device: result.Device, AdminAccess: admin,
			Tolerations: result.Tolerations,
		})
	}
	return out
}

// alpha3AdminAccess returns a request's admin access, which v1 has in the results of an allocation.
func alpha3AdminAccess(requests []resourceapi.DeviceRequest, name string) *bool {
	for i := range requests {
		if requests[i].Name == name && requests[i].Exactly != nil {
			return requests[i].Exactly.AdminAccess
		}
	}
	return nil
}

func alpha3AllocationFromHub(in *resourceapi.AllocationResult) *v1alpha3.AllocationResult {
	out := &v1alpha3.AllocationResult{NodeSelector: in.NodeSelector}
	out.Devices.Config = in.Devices.Config
	for i := range in.Devices.Results {
		result := &in.Devices.Results[i]
		out.Devices.Results = append(out.Devices.Results, v1alpha3.DeviceRequestAllocationResult{
			Request: result.Request, Driver: result.Driver, Pool: result.Pool, Device: result.Device, AdminAccess: result.AdminAccess,
			Tolerations: result.Tolerations,
		})
	}
	return out
}
