package v1alpha2

import resourceapi "k8s.io/api/resource/v1"

// Change says what has changed in Parameters. Exactly one field is set, or none, which
// stands for anything.
type Change struct {
	Class           *ResourceClass
	ClassParameters *ResourceClassParameters
	ClaimParameters *ResourceClaimParameters
}

// Concerns reports whether the requests of a claim from ToHub may be others after a
// change. The Parameters have to include that change already.
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

// isToClaimParameters is about parameters in the namespace of the claim.
func (r *ParametersReference) isToClaimParameters(parameters *ResourceClaimParameters) bool {
	if r.isDirect("ResourceClaimParameters") {
		return r.Name == parameters.Name
	}
	return parameters.GeneratedFrom != nil && parameters.GeneratedFrom.withoutNamespace() == r.withoutNamespace()
}

// withoutNamespace is how references from claims are compared: they cannot have one.
func (r *ParametersReference) withoutNamespace() ParametersReference {
	result := *r
	result.Namespace = ""
	return result
}
