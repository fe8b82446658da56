package conversion

import (
	"errors"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddToScheme registers the conversions between both alpha versions and v1.
//
// Conversion to v1 loses nothing; fields that v1 lacks are in AlphaClaim and AlphaClass. Conversion to v1alpha3 omits
// fields that v1alpha3 lacks, as servers omit unknown fields. The tests list these fields. Package v1alpha2 describes
// the v1 form of claims of v1alpha2.
//
// Classes and slices of v1alpha2 and rules of v1alpha3 are only converted to v1: schedulers do not write them.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(
		add(scheme, alpha3ClaimToHub, alpha3ClaimFromHub),
		add(scheme, alpha3TemplateToHub, alpha3TemplateFromHub),
		add(scheme, alpha3ClassToHub, alpha3ClassFromHub),
		add(scheme, alpha3SliceToHub, alpha3SliceFromHub),
		add(scheme, alpha3RuleToHub, alpha3RuleFromHub),
		add(scheme, alpha2ClaimToHub, alpha2ClaimFromHub),
		add(scheme, alpha2TemplateToHub, alpha2TemplateFromHub),
		add(scheme, alpha2ClassToHub, alpha2ClassFromHub),
		add(scheme, alpha2SliceToHub, alpha2SliceFromHub),
	)
}

// add registers the conversion of a type to v1 and back.
func add[A, B any](scheme *runtime.Scheme, toHub func(*A, *B) error, fromHub func(*B, *A) error) error {
	return errors.Join(
		scheme.AddConversionFunc((*A)(nil), (*B)(nil), func(a, b any, _ conversion.Scope) error { return toHub(a.(*A), b.(*B)) }),
		scheme.AddConversionFunc((*B)(nil), (*A)(nil), func(b, a any, _ conversion.Scope) error { return fromHub(b.(*B), a.(*A)) }),
	)
}
