package conversion

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Annotation is the annotation in which hub objects carry fields that v1 lacks. It exists in memory only: conversion
// from an alpha version sets or removes it, whatever value the server has under that name, and conversion to an alpha
// version removes it.
const Annotation = "alpha.quartermaster/fields"

// Allocator is the component that allocates a claim.
type Allocator string

const (
	// ByScheduler means structured parameters, as in v1.
	ByScheduler Allocator = ""
	// ByController means the classic mode (KEP-3063): a controller of the driver in the control plane allocates, and
	// negotiates with the scheduler through a PodSchedulingContext.
	ByController Allocator = "controller"
	// ByClass means that the claim is not allocated and its ResourceClass decides between the two, see
	// AlphaClass.Structured (v1alpha2).
	ByClass Allocator = "class"
)

// AlphaClaim has the fields of a claim of v1alpha2 or v1alpha3 that v1 lacks and that matter to scheduling. The zero
// value stands for a claim of v1.
type AlphaClaim struct {
	// Allocator is the component that allocates or has allocated the claim. In v1alpha3, spec.controller and
	// status.allocation.controller determine it. In v1alpha2, the scheduler has allocated an allocated claim with
	// Kubernetes' finalizer, and a controller one without.
	Allocator Allocator `json:"allocator,omitempty"`
	// Controller and AllocatedBy are spec.controller and status.allocation.controller (v1alpha3), for the conversion
	// back.
	Controller  string `json:"controller,omitempty"`
	AllocatedBy string `json:"allocatedBy,omitempty"`
	// Classes are the classes that must exist and admit a node before a controller is asked: spec.resourceClassName
	// in v1alpha2, those of all requests in v1alpha3.
	Classes []string `json:"classes,omitempty"`
	// Immediate is spec.allocationMode Immediate (v1alpha2): the controller allocates the
	// claim without waiting for a pod.
	Immediate bool `json:"immediate,omitempty"`
	// Exclusive means that the allocation cannot be shared (v1alpha2, status.allocation.shareable is false): the
	// claim has at most one consumer.
	Exclusive bool `json:"exclusive,omitempty"`
	// DeallocationRequested is status.deallocationRequested: the allocation is about to be removed, and no new
	// consumer may be added.
	DeallocationRequested bool `json:"deallocationRequested,omitempty"`
}

// AlphaClaimOf returns the fields that conversion from an alpha version has recorded, the zero value if there are
// none. Only claims from a client set of Connect have them.
func AlphaClaimOf(claim *resourceapi.ResourceClaim) AlphaClaim {
	var fields AlphaClaim
	read(claim.Annotations, &fields)
	return fields
}

// SameAlphaClaim reports whether two states of a claim have the same AlphaClaim.
func SameAlphaClaim(a, b *resourceapi.ResourceClaim) bool {
	return a.Annotations[Annotation] == b.Annotations[Annotation]
}

// SetAlphaClaim records the fields in the claim, for conversion from an alpha version.
func SetAlphaClaim(claim *resourceapi.ResourceClaim, fields AlphaClaim) { set(claim, fields) }

// AlphaClass has the fields of a ResourceClass (v1alpha2) or DeviceClass (v1alpha3) that a DeviceClass of v1 lacks.
type AlphaClass struct {
	// SuitableNodes are the nodes for which a controller can allocate claims of the class; nil means all nodes.
	SuitableNodes *v1.NodeSelector `json:"suitableNodes,omitempty"`
	// Structured is structuredParameters (v1alpha2): the scheduler allocates, not a controller. It has no meaning in
	// v1alpha3.
	Structured bool `json:"structured,omitempty"`
}

// AlphaClassOf returns the fields that conversion from an alpha version has recorded.
func AlphaClassOf(class *resourceapi.DeviceClass) AlphaClass {
	var fields AlphaClass
	read(class.Annotations, &fields)
	return fields
}

// SameAlphaClass reports whether two states of a class have the same AlphaClass.
func SameAlphaClass(a, b *resourceapi.DeviceClass) bool {
	return a.Annotations[Annotation] == b.Annotations[Annotation]
}

// SetAlphaClass records the fields in the class, for conversion from an alpha version.
func SetAlphaClass(class *resourceapi.DeviceClass, fields AlphaClass) { set(class, fields) }

// DropAlpha removes the fields that SetAlphaClaim and SetAlphaClass have recorded, for conversion to an alpha
// version.
func DropAlpha(object metav1.Object) {
	annotations := object.GetAnnotations()
	if _, found := annotations[Annotation]; !found {
		return
	}
	kept := make(map[string]string, len(annotations))
	for key, value := range annotations {
		if key != Annotation {
			kept[key] = value
		}
	}
	if len(kept) == 0 {
		kept = nil
	}
	object.SetAnnotations(kept)
}

// set replaces the annotation, without changing a map that may be shared. For the zero value, there is no annotation.
func set(object metav1.Object, fields any) {
	DropAlpha(object)
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", fields, err)) // Plain data can always be encoded.
	}
	if string(encoded) == "{}" {
		return
	}
	annotations := make(map[string]string, len(object.GetAnnotations())+1)
	for key, value := range object.GetAnnotations() {
		annotations[key] = value
	}
	annotations[Annotation] = string(encoded)
	object.SetAnnotations(annotations)
}

// read leaves fields unchanged if there is no annotation. Conversion replaces a server's annotation of that name, but
// objects of v1 are not converted: there, the annotation may have any value, and read ignores invalid JSON.
func read(annotations map[string]string, fields any) {
	encoded, found := annotations[Annotation]
	if !found {
		return
	}
	if err := json.Unmarshal([]byte(encoded), fields); err != nil {
		klog.Background().V(2).Info("Ignoring an annotation that nobody but the scheduler should use", "annotation", Annotation, "value", encoded, "err", err)
	}
}
