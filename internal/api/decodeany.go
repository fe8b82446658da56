package api

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// ErrUnknownFields reports fields that the object's version does not have. The object has all other fields.
var ErrUnknownFields = errors.New("it has fields that are not known")

// Decode decodes an object of resource.k8s.io in JSON, for example from a user's file, and converts it to v1. With
// ErrUnknownFields it also returns the object. It refuses objects of v1alpha2, whose requests are in other objects.
func Decode(version Version, kind string, data []byte) (metav1.Object, error) {
	switch kind {
	case "ResourceClaim":
		return decodeAs[resourceapi.ResourceClaim, resourcev1beta2.ResourceClaim, resourcev1beta1.ResourceClaim, v1alpha3.ResourceClaim](version, data)
	case "ResourceClaimTemplate":
		return decodeAs[resourceapi.ResourceClaimTemplate, resourcev1beta2.ResourceClaimTemplate, resourcev1beta1.ResourceClaimTemplate, v1alpha3.ResourceClaimTemplate](version, data)
	case "DeviceClass":
		return decodeAs[resourceapi.DeviceClass, resourcev1beta2.DeviceClass, resourcev1beta1.DeviceClass, v1alpha3.DeviceClass](version, data)
	case "ResourceSlice":
		return decodeAs[resourceapi.ResourceSlice, resourcev1beta2.ResourceSlice, resourcev1beta1.ResourceSlice, v1alpha3.ResourceSlice](version, data)
	case "DeviceTaintRule":
		if version != V1 && version != V1beta2 {
			return nil, fmt.Errorf("a DeviceTaintRule of version %s cannot be read; write it as v1", version)
		}
		return decodeAs[resourceapi.DeviceTaintRule, resourcev1beta2.DeviceTaintRule, resourcev1beta2.DeviceTaintRule, resourcev1beta2.DeviceTaintRule](version, data)
	}
	return nil, fmt.Errorf("kind %s of resource.k8s.io/%s is not known", kind, version)
}

// decodeAs decodes a T; B2, B1 and A3 are its types in v1beta2, v1beta1 and v1alpha3.
func decodeAs[T, B2, B1, A3 any, P interface {
	*T
	metav1.Object
}](version Version, data []byte) (metav1.Object, error) {
	var one *T
	var err error
	switch version {
	case V1:
		one, err = strictly[T](data)
	case V1beta2:
		one, err = converting[T, B2](data)
	case V1beta1:
		one, err = converting[T, B1](data)
	case V1alpha3:
		one, err = converting[T, A3](data)
	default:
		return nil, fmt.Errorf("version %s of resource.k8s.io cannot be read from a file; write it as v1", version)
	}
	if one == nil {
		return nil, err
	}
	return P(one), err
}

func converting[T, O any](data []byte) (*T, error) {
	old, unknown := strictly[O](data)
	if old == nil {
		return nil, unknown
	}
	one, err := convert[T](old)
	if err != nil {
		return nil, err
	}
	return one, unknown
}

// strictly decodes an object; for unknown fields, it returns the object and an ErrUnknownFields.
func strictly[T any](data []byte) (*T, error) {
	one := new(T)
	if err := quantity.CheckJSON(data, reflect.TypeFor[T](), quantity.IsEndless); err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	unknown, err := strictjson.UnmarshalStrict(data, one)
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if len(unknown) == 0 {
		return one, nil
	}
	var texts []string
	for _, err := range unknown {
		texts = append(texts, err.Error())
	}
	return one, fmt.Errorf("%w: %s; capitals count", ErrUnknownFields, strings.Join(texts, "; "))
}
