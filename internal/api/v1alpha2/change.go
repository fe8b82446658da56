package v1alpha2

import resourceapi "k8s.io/api/resource/v1"

// Change describes a change of Parameters. At most one field is set; if none is, anything may have changed.
type Change struct {
	Class           *ResourceClass
	ClassParameters *ResourceClassParameters
	ClaimParameters *ResourceClaimParameters
}

// Concerns reports whether a change may change the requests of a claim from ToHub. The Parameters must already
// include the change.
func (p *Parameters) Concerns(change Change, hub *resourceapi.ResourceClaim) bool {
	if !IsFrom(hub) || hub.Status.Allocation != nil {
		return false
	}
	spec, err := SpecFromHub(&hub.Spec)
	if err != nil {
		return false
	}
	switch {
	case change.Class != nil:
		return change.Class.Name == spec.ResourceClassName
	case change.ClassParameters != nil:
		class := p.Class(spec.ResourceClassName)
		return class != nil && class.ParametersRef != nil && class.ParametersRef.isToClassParameters(change.ClassParameters)
	case change.ClaimParameters != nil:
		return change.ClaimParameters.Namespace == hub.Namespace &&
			spec.ParametersRef != nil && spec.ParametersRef.isToClaimParameters(change.ClaimParameters)
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
