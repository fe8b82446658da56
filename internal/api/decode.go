package api

import (
	"encoding/json"
	"fmt"
	"reflect"

	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// claimTypes has the type of claims in each version.
var claimTypes = map[Version]reflect.Type{
	V1:       reflect.TypeFor[resourceapi.ResourceClaim](),
	V1beta2:  reflect.TypeFor[resourcev1beta2.ResourceClaim](),
	V1beta1:  reflect.TypeFor[resourcev1beta1.ResourceClaim](),
	V1alpha3: reflect.TypeFor[v1alpha3.ResourceClaim](),
	V1alpha2: reflect.TypeFor[v1alpha2.ResourceClaim](),
}

// ClaimType returns the type that DecodeClaim decodes, nil for an unknown version.
func ClaimType(version Version) reflect.Type { return claimTypes[version] }

// DecodeClaim decodes a claim in JSON, in any version of the API, as API servers send it to webhooks.
func DecodeClaim(version Version, data []byte) (*resourceapi.ResourceClaim, error) {
	if claimTypes[version] == nil {
		return nil, fmt.Errorf("read a claim: version %q of resource.k8s.io is not known", version)
	}
	served, claim := reflect.New(claimTypes[version]).Interface(), &resourceapi.ResourceClaim{}
	if err := json.Unmarshal(data, served); err != nil {
		return nil, fmt.Errorf("read a claim of version %s: %w", version, err)
	}
	if known, is := served.(*resourceapi.ResourceClaim); is {
		return known, nil
	}
	if err := scheme.Convert(served, claim, nil); err != nil {
		return nil, fmt.Errorf("convert a claim of version %s: %w", version, err)
	}
	return claim, nil
}
