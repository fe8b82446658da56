package apiversions

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	resourcev1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	resourcev1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"

	"github.com/quartermaster-dra/quartermaster/internal/legacy/hub"
)

// scheme has the conversions between v1 and the older versions.
var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(resourcev1beta1.AddToScheme(scheme))
	utilruntime.Must(resourcev1beta2.AddToScheme(scheme))
	utilruntime.Must(hub.AddToScheme(scheme))
}

// convert returns an object of the other version. What the two have in common may be
// shared between them, so the caller has to own what it passes in, or not change either.
func convert[To, From any](from *From) (*To, error) {
	to := new(To)
	if err := scheme.Convert(from, to, nil); err != nil {
		return nil, fmt.Errorf("convert %T to %T: %w", from, to, err)
	}
	return to, nil
}
