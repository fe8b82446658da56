package v1alpha3

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceTaintRule adds a taint to devices.
type DeviceTaintRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DeviceTaintRuleSpec               `json:"spec"`
	Status resourceapi.DeviceTaintRuleStatus `json:"status,omitempty"`
}

// DeviceTaintRuleSpec selects devices and has the taint.
type DeviceTaintRuleSpec struct {
	DeviceSelector *DeviceTaintSelector    `json:"deviceSelector,omitempty"`
	Taint          resourceapi.DeviceTaint `json:"taint,omitempty"`
}

// DeviceTaintSelector selects devices by their name or, up to 1.34, by a class or by expressions. The types of 1.37
// lack the latter.
type DeviceTaintSelector struct {
	resourceapi.DeviceTaintSelector `json:",inline"`

	DeviceClassName *string                      `json:"deviceClassName,omitempty"`
	Selectors       []resourceapi.DeviceSelector `json:"selectors,omitempty"`
}
