package apiversions

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Version is a version of the API group resource.k8s.io, such as "v1beta1".
type Version string

// The versions that there are. In Kubernetes, v1 is on by default since 1.34, v1beta2
// came with 1.33, v1beta1 with 1.32, v1alpha3 with 1.31 and v1alpha2 with 1.27. See
// convertible for what is supported. None means that the server has none of these.
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
	// alpha2ClassResource is what v1alpha2 has instead of device classes.
	alpha2ClassResource = "resourceclasses"
)

// convertible says in which versions a resource can be used, the best one first.
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

// nameIn returns what a resource is called in a version.
func nameIn(version Version, resource string) string {
	if version == V1alpha2 && resource == classResource {
		return alpha2ClassResource
	}
	return resource
}

// isOptional says that v1 does not have the resource, so that nothing is amiss if a server
// does not either.
func isOptional(resource string) bool { return convertible[resource][0] != V1 }

// allVersions are those of all resources, the best one first.
var allVersions = []Version{V1, V1beta2, V1beta1, V1alpha3, V1alpha2}

// groupVersion returns "resource.k8s.io/v1" for V1.
func (v Version) groupVersion() string { return resourceapi.GroupName + "/" + string(v) }

func (v Version) String() string {
	if v == None {
		return "none"
	}
	return string(v)
}

// best returns the first of the versions in which a resource can be used.
func best(resource string, served func(Version) bool) Version {
	if i := slices.IndexFunc(convertible[resource], served); i >= 0 {
		return convertible[resource][i]
	}
	return None
}
