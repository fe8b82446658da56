package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	resourcev1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	resourcev1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

// scheme has the conversions between v1 and the older versions.
var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(resourcev1beta1.AddToScheme(scheme))
	utilruntime.Must(resourcev1beta2.AddToScheme(scheme))
	utilruntime.Must(conversion.AddToScheme(scheme))
}

// convert converts an object to another version. The result may share data with the argument, so callers must own the
// argument or change neither.
func convert[To, From any](from *From) (*To, error) {
	to := new(To)
	if err := scheme.Convert(from, to, nil); err != nil {
		return nil, fmt.Errorf("convert %T to %T: %w", from, to, err)
	}
	return to, nil
}

// convertList converts a list of objects of type O to a list of type L, with objects of type T.
func convertList[T, L, O, OL any](from *OL) (*L, error) {
	var items []runtime.Object
	err := meta.EachListItem(any(from).(runtime.Object), func(item runtime.Object) error {
		converted, err := convert[T](any(item).(*O))
		if err == nil {
			items = append(items, any(converted).(runtime.Object))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	to := new(L)
	if err := meta.SetList(any(to).(runtime.Object), items); err != nil {
		return nil, fmt.Errorf("convert %T to %T: %w", from, to, err)
	}
	before, after := any(from).(metav1.ListInterface), any(to).(metav1.ListInterface)
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetContinue(before.GetContinue())
	after.SetRemainingItemCount(before.GetRemainingItemCount())
	return to, nil
}
