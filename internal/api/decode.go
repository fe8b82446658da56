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

// DecodeClaim decodes a claim in JSON, in any version of the API, as API servers send it to webhooks.
func DecodeClaim(version Version, data []byte) (*resourceapi.ResourceClaim, error) {
	switch version {
	case V1:
		claim := &resourceapi.ResourceClaim{}
		if err := json.Unmarshal(data, claim); err != nil {
			return nil, fmt.Errorf("read a claim of version %s: %w", version, err)
		}
		return claim, nil
	case V1beta2:
		return decodeOlder[resourcev1beta2.ResourceClaim](version, data)
	case V1beta1:
		return decodeOlder[resourcev1beta1.ResourceClaim](version, data)
	case V1alpha3:
		return decodeOlder[v1alpha3.ResourceClaim](version, data)
	case V1alpha2:
		return decodeOlder[v1alpha2.ResourceClaim](version, data)
	default:
		return nil, fmt.Errorf("read a claim: version %q of resource.k8s.io is not known", version)
	}
}

func decodeOlder[T any](version Version, data []byte) (*resourceapi.ResourceClaim, error) {
	older := new(T)
	if err := json.Unmarshal(data, older); err != nil {
		return nil, fmt.Errorf("read a claim of version %s: %w", version, err)
	}
	return convert[resourceapi.ResourceClaim](older)
}

// ClaimType returns the type that DecodeClaim decodes, nil for an unknown version.
func ClaimType(version Version) reflect.Type {
	switch version {
	case V1:
		return reflect.TypeFor[resourceapi.ResourceClaim]()
	case V1beta2:
		return reflect.TypeFor[resourcev1beta2.ResourceClaim]()
	case V1beta1:
		return reflect.TypeFor[resourcev1beta1.ResourceClaim]()
	case V1alpha3:
		return reflect.TypeFor[v1alpha3.ResourceClaim]()
	case V1alpha2:
		return reflect.TypeFor[v1alpha2.ResourceClaim]()
	default:
		return nil
	}
}
