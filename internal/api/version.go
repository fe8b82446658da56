package api

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Version is a version of the API group resource.k8s.io, for example "v1beta1".
type Version string

// The versions of resource.k8s.io. In Kubernetes, v1 is on by default since 1.34; v1beta2 came with 1.33, v1beta1
// with 1.32, v1alpha3 with 1.31 and v1alpha2 with 1.27. See convertible for the supported ones. None means that the
// server has none of these.
const (
	V1       Version = "v1"
	V1beta2  Version = "v1beta2"
	V1beta1  Version = "v1beta1"
	V1alpha3 Version = "v1alpha3"
	V1alpha2 Version = "v1alpha2"
	None     Version = ""
)

// The resources of the API group, as in the URL.
const (
	claimResource    = "resourceclaims"
	templateResource = "resourceclaimtemplates"
	classResource    = "deviceclasses"
	sliceResource    = "resourceslices"
	ruleResource     = "devicetaintrules"
	contextResource  = "podschedulingcontexts"

	classParametersResource = "resourceclassparameters"
	claimParametersResource = "resourceclaimparameters"
	// alpha2ClassResource is the counterpart of device classes in v1alpha2.
	alpha2ClassResource = "resourceclasses"
)

// convertible lists the supported versions of a resource, the best one first.
var convertible = map[string][]Version{
	claimResource:    {V1, V1beta2, V1beta1, V1alpha3, V1alpha2},
	templateResource: {V1, V1beta2, V1beta1, V1alpha3, V1alpha2},
	classResource:    {V1, V1beta2, V1beta1, V1alpha3, V1alpha2},
	sliceResource:    {V1, V1beta2, V1beta1, V1alpha3, V1alpha2},
	ruleResource:     {V1, V1beta2, V1alpha3},
	contextResource:  {V1alpha3, V1alpha2},

	classParametersResource: {V1alpha2},
	claimParametersResource: {V1alpha2},
}

// nameIn returns the name of a resource in a version.
func nameIn(version Version, resource string) string {
	if version == V1alpha2 && resource == classResource {
		return alpha2ClassResource
	}
	return resource
}

// isOptional reports whether v1 lacks the resource, so that a server may lack it too.
func isOptional(resource string) bool { return convertible[resource][0] != V1 }

// allVersions lists the versions of all resources, the best one first.
var allVersions = []Version{V1, V1beta2, V1beta1, V1alpha3, V1alpha2}

// groupVersion returns "resource.k8s.io/v1" for V1.
func (v Version) groupVersion() string { return resourceapi.GroupName + "/" + string(v) }

func (v Version) String() string {
	if v == None {
		return "none"
	}
	return string(v)
}

// best returns the best supported version of a resource among the served ones.
func best(resource string, served func(Version) bool) Version {
	if i := slices.IndexFunc(convertible[resource], served); i >= 0 {
		return convertible[resource][i]
	}
	return None
}
