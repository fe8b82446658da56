package v1alpha2

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// Resolve returns a claim from ToHub with the current requests of its class and parameters. It does not change its
// argument, and returns other claims unchanged. If an object is missing, the error names it.
//
// Requests are in the order of the parameters. Each has up to three selectors: the driver, the filter of the class if
// there is one, and that of the request. The configuration has the parts of an allocation that FromHub needs.
func (p *Parameters) Resolve(hub *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if !IsFrom(hub) {
		return hub, nil
	}
	spec, err := SpecFromHub(&hub.Spec)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", klog.KObj(hub), err)
	}
	devices, err := p.resolve(hub.Namespace, spec)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", klog.KObj(hub), err)
	}
	resolved := *hub
	resolved.Spec.Devices = *devices
	return &resolved, nil
}

func (p *Parameters) resolve(namespace string, spec *ResourceClaimSpec) (*resourceapi.DeviceClaim, error) {
	class := p.Class(spec.ResourceClassName)
	if class == nil {
		return nil, fmt.Errorf("resource class %s does not exist; waiting for it to be created", spec.ResourceClassName)
	}
	if !class.IsStructured() {
		return nil, fmt.Errorf("resource class %s has no structuredParameters so that its driver has to allocate the claim", class.Name)
	}
	ofClass, err := p.parametersOfClass(class)
	if err != nil {
		return nil, err
	}
	ofClaim, err := p.parametersOfClaim(namespace, class, spec.ParametersRef)
	if err != nil {
		return nil, err
	}
	return join(class, ofClass, ofClaim)
}

// SuitableNodes returns the nodes to which the class currently restricts a claim from ToHub, nil if there is no
// restriction or the class is unknown.
func (p *Parameters) SuitableNodes(hub *resourceapi.ResourceClaim) *v1.NodeSelector {
	spec, err := SpecFromHub(&hub.Spec)
	if err != nil {
		return nil
	}
	if class := p.Class(spec.ResourceClassName); class != nil {
		return class.SuitableNodes
	}
	return nil
}

// parametersOfClass returns the parameters of a class, empty ones if it refers to none.
func (p *Parameters) parametersOfClass(class *ResourceClass) (*ResourceClassParameters, error) {
	ref := class.ParametersRef
	if ref == nil {
		return &ResourceClassParameters{}, nil
	}
	if ref.isDirect("ResourceClassParameters") {
		if ref.Namespace == "" {
			return nil, fmt.Errorf("resource class %s refers to class parameters %s without saying where they are; set parametersRef.namespace", class.Name, ref.Name)
		}
		if parameters := named[ResourceClassParameters](p.ClassParameters, ref.Namespace, ref.Name); parameters != nil {
			return parameters, nil
		}
		return nil, fmt.Errorf("class parameters %s of resource class %s do not exist; waiting for them to be created",
			klog.KRef(ref.Namespace, ref.Name), class.Name)
	}
	if parameters := generated[ResourceClassParameters](p.ClassParameters, origin(*ref, "")); parameters != nil {
		return parameters, nil
	}
	return nil, fmt.Errorf("class parameters for %s (named by resource class %s) do not exist; waiting for the driver to generate them",
		ref, class.Name)
}

// parametersOfClaim returns the parameters of a claim. If it refers to none, they ask for any one device of the
// class's driver, which can be shared.
func (p *Parameters) parametersOfClaim(namespace string, class *ResourceClass, ref *ParametersReference) (*ResourceClaimParameters, error) {
	if ref == nil {
		return &ResourceClaimParameters{
			Shareable: true,
			DriverRequests: []DriverRequests{{
				DriverName: class.DriverName,
				Requests:   []ResourceRequest{{NamedResources: &NamedResourcesRequest{Selector: "true"}}},
			}},
		}, nil
	}
	if ref.isDirect("ResourceClaimParameters") {
		if parameters := named[ResourceClaimParameters](p.ClaimParameters, namespace, ref.Name); parameters != nil {
			return parameters, nil
		}
		return nil, fmt.Errorf("claim parameters %s do not exist; waiting for them to be created", klog.KRef(namespace, ref.Name))
	}
	if parameters := generated[ResourceClaimParameters](p.ClaimParameters, origin(ref.withoutNamespace(), namespace)); parameters != nil {
		return parameters, nil
	}
	return nil, fmt.Errorf("claim parameters for %s do not exist in namespace %s; waiting for the driver to generate them", ref, namespace)
}

// isDirect reports whether the reference names an object of this API group.
func (r *ParametersReference) isDirect(kind string) bool {
	return r.APIGroup == resourceapi.GroupName && r.Kind == kind
}

// String returns "Kind.group namespace/name".
func (r *ParametersReference) String() string {
	kind := r.Kind
	if r.APIGroup != "" {
		kind += "." + r.APIGroup
	}
	return kind + " " + klog.KRef(r.Namespace, r.Name).String()
}

// join returns the requests in the hub, with the outline of their allocation as configuration.
func join(class *ResourceClass, ofClass *ResourceClassParameters, ofClaim *ResourceClaimParameters) (*resourceapi.DeviceClaim, error) {
	devices := &resourceapi.DeviceClaim{}
	rest := outline{DriverName: class.DriverName, AllocationResult: AllocationResult{Shareable: ofClaim.Shareable}}
	for _, driver := range ofClaim.DriverRequests {
		filter := ofClass.filter(driver.DriverName)
		structured := &StructuredResourceHandle{
			VendorClassParameters: storable(ofClass.vendorParameters(driver.DriverName)),
			VendorClaimParameters: storable(driver.VendorParameters),
			Results:               []DriverAllocationResult{},
		}
		for i, request := range driver.Requests {
			if request.NamedResources == nil {
				return nil, fmt.Errorf("claim parameters %s: request %d for driver %s is not for named resources; it may use an API that this scheduler does not know",
					klog.KObj(ofClaim), i, driver.DriverName)
			}
			selectors := []resourceapi.DeviceSelector{selector("device.driver == " + strconv.Quote(driver.DriverName))}
			if filter != nil {
				selectors = append(selectors, selector(MarkExpression(filter.Selector)))
			}
			devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{
				Name: requestName(driver.DriverName, i),
				Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: class.Name,
					Selectors:       append(selectors, selector(MarkExpression(request.NamedResources.Selector))),
					AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
					Count:           1,
				},
			})
			structured.Results = append(structured.Results, DriverAllocationResult{VendorRequestParameters: storable(request.VendorParameters)})
		}
		rest.ResourceHandles = append(rest.ResourceHandles, ResourceHandle{DriverName: driver.DriverName, StructuredData: structured})
	}
	if len(rest.ResourceHandles) > MaxHandles {
		return nil, fmt.Errorf("claim parameters %s are for %d drivers (the limit is %d); divide them between several claims",
			klog.KObj(ofClaim), len(rest.ResourceHandles), MaxHandles)
	}
	devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: carry(rest)}}
	return devices, nil
}

func selector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// filter returns the filter for a driver, nil if there is none.
func (p *ResourceClassParameters) filter(driver string) *NamedResourcesFilter {
	i := slices.IndexFunc(p.Filters, func(f ResourceFilter) bool { return f.DriverName == driver && f.NamedResources != nil })
	if i < 0 {
		return nil
	}
	return p.Filters[i].NamedResources
}

// vendorParameters returns the vendor parameters for a driver.
func (p *ResourceClassParameters) vendorParameters(driver string) runtime.RawExtension {
	i := slices.IndexFunc(p.VendorParameters, func(v VendorParameters) bool { return v.DriverName == driver })
	if i < 0 {
		return runtime.RawExtension{}
	}
	return p.VendorParameters[i].Parameters
}
