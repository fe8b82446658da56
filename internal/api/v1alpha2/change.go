package v1alpha2

import resourceapi "k8s.io/api/resource/v1"

// Concerns reports whether the change of a class or of parameters may change the requests of a claim from ToHub. The
// Parameters must already include the change. nil stands for a change of anything.
func (p *Parameters) Concerns(changed any, hub *resourceapi.ResourceClaim) bool {
	if !IsFrom(hub) || hub.Status.Allocation != nil {
		return false
	}
	spec, err := SpecFromHub(&hub.Spec)
	if err != nil {
		return false
	}
	switch changed := changed.(type) {
	case *ResourceClass:
		return changed.Name == spec.ResourceClassName
	case *ResourceClassParameters:
		class := p.Class(spec.ResourceClassName)
		return class != nil && class.ParametersRef != nil && class.ParametersRef.isToClassParameters(changed)
	case *ResourceClaimParameters:
		return changed.Namespace == hub.Namespace && spec.ParametersRef != nil && spec.ParametersRef.isToClaimParameters(changed)
	}
	return true
}

func (r *ParametersReference) isToClassParameters(parameters *ResourceClassParameters) bool {
	if r.isDirect("ResourceClassParameters") {
		return r.Namespace == parameters.Namespace && r.Name == parameters.Name
	}
	return parameters.GeneratedFrom != nil && *parameters.GeneratedFrom == *r
}

// isToClaimParameters assumes parameters in the namespace of the claim.
func (r *ParametersReference) isToClaimParameters(parameters *ResourceClaimParameters) bool {
	if r.isDirect("ResourceClaimParameters") {
		return r.Name == parameters.Name
	}
	return parameters.GeneratedFrom != nil && parameters.GeneratedFrom.withoutNamespace() == r.withoutNamespace()
}

// withoutNamespace returns the reference in comparable form: references from claims have no namespace.
func (r *ParametersReference) withoutNamespace() ParametersReference {
	result := *r
	result.Namespace = ""
	return result
}
