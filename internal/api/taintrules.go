package api

import (
	"context"
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
)

var alphaRuleResource = schema.GroupVersionResource{Group: resourceapi.GroupName, Version: string(V1alpha3), Resource: ruleResource}

// alphaRules is the backend of DeviceTaintRules in v1alpha3, for reading only.
//
// Up to 1.34, a rule could select devices by a class or by expressions. v1 cannot express that, and without those
// fields a rule would select many more devices, perhaps all. So such a rule selects no devices, which is logged. The
// client is untyped because the types of 1.37 lack these fields too.
type alphaRules struct {
	client dynamic.ResourceInterface
}

func (a alphaRules) Create(context.Context, *resourceapi.DeviceTaintRule, metav1.CreateOptions) (*resourceapi.DeviceTaintRule, error) {
	return nil, unsupported("create", ruleResource, V1alpha3)
}

func (a alphaRules) Update(context.Context, *resourceapi.DeviceTaintRule, metav1.UpdateOptions) (*resourceapi.DeviceTaintRule, error) {
	return nil, unsupported("update", ruleResource, V1alpha3)
}

func (a alphaRules) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*resourceapi.DeviceTaintRule, error) {
	return nil, unsupported("patch", ruleResource, V1alpha3)
}

func (a alphaRules) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return a.client.Delete(ctx, name, o)
}

func (a alphaRules) DeleteCollection(ctx context.Context, o metav1.DeleteOptions, which metav1.ListOptions) error {
	return a.client.DeleteCollection(ctx, o, which)
}

func (a alphaRules) Get(ctx context.Context, name string, o metav1.GetOptions) (*resourceapi.DeviceTaintRule, error) {
	object, err := a.client.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return convertAlphaRule(object)
}

func (a alphaRules) List(ctx context.Context, o metav1.ListOptions) (*resourceapi.DeviceTaintRuleList, error) {
	list, err := a.client.List(ctx, o)
	if err != nil {
		return nil, err
	}
	result := &resourceapi.DeviceTaintRuleList{
		ListMeta: metav1.ListMeta{
			ResourceVersion:    list.GetResourceVersion(),
			Continue:           list.GetContinue(),
			RemainingItemCount: list.GetRemainingItemCount(),
		},
	}
	for i := range list.Items {
		rule, err := convertAlphaRule(&list.Items[i])
		if err != nil {
			return nil, err
		}
		result.Items = append(result.Items, *rule)
	}
	return result, nil
}

func (a alphaRules) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	events, err := a.client.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return newConvertedWatch(events, convertAlphaRule), nil
}

// convertAlphaRule relies on v1 having a subset of v1alpha3's fields.
func convertAlphaRule(object *unstructured.Unstructured) (*resourceapi.DeviceTaintRule, error) {
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("read DeviceTaintRule %s of version v1alpha3: %w", object.GetName(), err)
	}
	rule := &resourceapi.DeviceTaintRule{}
	if err := json.Unmarshal(raw, rule); err != nil {
		return nil, fmt.Errorf("read DeviceTaintRule %s of version v1alpha3: %w", object.GetName(), err)
	}
	rule.TypeMeta = metav1.TypeMeta{}
	for _, field := range []string{"deviceClassName", "selectors"} {
		if _, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "deviceSelector", field); found {
			klog.Background().Info("This DeviceTaintRule has no effect on scheduling: it selects devices in a way that only v1alpha3 knows. Use driver, pool and device",
				"rule", klog.KObj(rule), "field", "spec.deviceSelector."+field)
			rule.Spec.DeviceSelector = nil // nil selects none; an empty selector would select all.
		}
	}
	return rule, nil
}
