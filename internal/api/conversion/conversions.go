package conversion

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// AddToScheme registers the conversions between both alpha versions and v1.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := addAlpha3Conversions(scheme); err != nil {
		return err
	}
	return addAlpha2Conversions(scheme)
}

// addAlpha3Conversions registers the conversions between v1alpha3 and v1. Lists are only converted to v1, because no
// client sends lists.
//
// Conversion to v1 loses nothing; fields that v1 lacks are in AlphaClaim and AlphaClass. Conversion to v1alpha3 omits
// fields that v1alpha3 lacks, as servers omit unknown fields. The tests list these fields.
func addAlpha3Conversions(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		adds(alpha3ClaimToHub), adds(alpha3ClaimFromHub),
		adds(alpha3TemplateToHub), adds(alpha3TemplateFromHub),
		adds(alpha3ClassToHub), adds(alpha3ClassFromHub),
		adds(alpha3SliceToHub), adds(alpha3SliceFromHub),
		adds(func(in *v1alpha3.ResourceClaimList, out *resourceapi.ResourceClaimList) error {
			return convertList(in.ListMeta, in.Items, alpha3ClaimToHub, &out.ListMeta, &out.Items)
		}),
		adds(func(in *v1alpha3.ResourceClaimTemplateList, out *resourceapi.ResourceClaimTemplateList) error {
			return convertList(in.ListMeta, in.Items, alpha3TemplateToHub, &out.ListMeta, &out.Items)
		}),
		adds(func(in *v1alpha3.DeviceClassList, out *resourceapi.DeviceClassList) error {
			return convertList(in.ListMeta, in.Items, alpha3ClassToHub, &out.ListMeta, &out.Items)
		}),
		adds(func(in *v1alpha3.ResourceSliceList, out *resourceapi.ResourceSliceList) error {
			return convertList(in.ListMeta, in.Items, alpha3SliceToHub, &out.ListMeta, &out.Items)
		}),
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// adds returns a function that registers a conversion.
func adds[A, B any](convert func(*A, *B) error) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		return scheme.AddConversionFunc((*A)(nil), (*B)(nil), func(a, b any, _ conversion.Scope) error {
			return convert(a.(*A), b.(*B))
		})
	}
}

func convertList[A, B any](meta metav1.ListMeta, in []A, convert func(*A, *B) error, outMeta *metav1.ListMeta, out *[]B) error {
	*outMeta = meta
	var err error
	*out, err = convertAll(in, convert)
	return err
}

// convertAll converts a list; nil stays nil.
func convertAll[A, B any](in []A, convert func(*A, *B) error) ([]B, error) {
	if in == nil {
		return nil, nil
	}
	out := make([]B, len(in))
	for i := range in {
		if err := convert(&in[i], &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
