package hub

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Annotation is where objects of the hub carry what the alpha versions know and v1
// does not. It exists in memory only: conversion from an alpha version sets or removes
// it, whatever the server has under that name, and conversion to one removes it.
const Annotation = "alpha.quartermaster/fields"

// Allocator says who allocates a claim.
type Allocator string

const (
	// ByScheduler is allocation by structured parameters, as in v1.
	ByScheduler Allocator = ""
	// ByController is the classic mode (KEP-3063): a controller of the driver in the
	// control plane allocates, and negotiates with the scheduler through a
	// PodSchedulingContext.
	ByController Allocator = "controller"
	// ByClass is either: the claim is not allocated, and its ResourceClass decides, see
	// AlphaClass.Structured (v1alpha2).
	ByClass Allocator = "class"
)

// AlphaClaim is what a claim of v1alpha2 or v1alpha3 has and one of v1 has not, as far as
// it matters to scheduling. The zero value is that of a claim of v1.
type AlphaClaim struct {
	// Allocator is who allocates the claim, or has allocated it: in v1alpha3 the claim says
	// so (spec.controller, status.allocation.controller). In v1alpha2 an allocated claim
	// with the finalizer of Kubernetes was allocated by the scheduler, one without by a
	// controller.
	Allocator Allocator `json:"allocator,omitempty"`
	// Controller and AllocatedBy are spec.controller and status.allocation.controller
	// (v1alpha3), for the way back.
	Controller  string `json:"controller,omitempty"`
	AllocatedBy string `json:"allocatedBy,omitempty"`
	// Classes are those that all have to exist and to admit a node before a controller
	// is asked: spec.resourceClassName in v1alpha2, those of all requests in v1alpha3.
	Classes []string `json:"classes,omitempty"`
	// Immediate is spec.allocationMode Immediate (v1alpha2): the controller allocates the
	// claim without waiting for a pod.
	Immediate bool `json:"immediate,omitempty"`
	// Exclusive says that the allocation cannot be shared (v1alpha2,
	// status.allocation.shareable is false): one consumer at a time.
	Exclusive bool `json:"exclusive,omitempty"`
	// DeallocationRequested is status.deallocationRequested: the allocation is about to be
	// removed, and no new consumer may come.
	DeallocationRequested bool `json:"deallocationRequested,omitempty"`
}

// AlphaClaimOf returns what conversion from an alpha version has noted about a claim, the
// zero value if there is nothing. Only claims from a client set of Connect have it.
func AlphaClaimOf(claim *resourceapi.ResourceClaim) AlphaClaim {
	var fields AlphaClaim
	read(claim.Annotations, &fields)
	return fields
}

// SameAlphaClaim reports whether two states of a claim have the same AlphaClaim.
func SameAlphaClaim(a, b *resourceapi.ResourceClaim) bool {
	return a.Annotations[Annotation] == b.Annotations[Annotation]
}

// SetAlphaClaim is for conversion from an alpha version. It changes the claim.
func SetAlphaClaim(claim *resourceapi.ResourceClaim, fields AlphaClaim) { set(claim, fields) }

// AlphaClass is what a ResourceClass (v1alpha2) or DeviceClass (v1alpha3) has and a
// DeviceClass of v1 has not.
type AlphaClass struct {
	// SuitableNodes are the only nodes for which claims of that class can be allocated by
	// a controller; nil stands for all.
	SuitableNodes *v1.NodeSelector `json:"suitableNodes,omitempty"`
	// Structured is structuredParameters (v1alpha2): the scheduler allocates, not a
	// controller. Without meaning in v1alpha3.
	Structured bool `json:"structured,omitempty"`
}

// AlphaClassOf returns what conversion from an alpha version has noted about a class.
func AlphaClassOf(class *resourceapi.DeviceClass) AlphaClass {
	var fields AlphaClass
	read(class.Annotations, &fields)
	return fields
}

// SameAlphaClass reports whether two states of a class have the same AlphaClass.
func SameAlphaClass(a, b *resourceapi.DeviceClass) bool {
	return a.Annotations[Annotation] == b.Annotations[Annotation]
}

// SetAlphaClass is for conversion from an alpha version. It changes the class.
func SetAlphaClass(class *resourceapi.DeviceClass, fields AlphaClass) { set(class, fields) }

// DropAlpha removes what SetAlphaClaim and SetAlphaClass have set, for conversion to an
// alpha version.
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

// set replaces the annotation, without changing a map that may be shared. The zero value
// is no annotation at all.
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

// read leaves the fields as they are if there is no annotation. Conversion replaces what
// servers have under that name, but what is in v1 already is not converted. There, the
// annotation can be anything, and what is no JSON means nothing.
func read(annotations map[string]string, fields any) {
	encoded, found := annotations[Annotation]
	if !found {
		return
	}
	if err := json.Unmarshal([]byte(encoded), fields); err != nil {
		klog.Background().V(2).Info("Ignoring an annotation that nobody but the scheduler should use", "annotation", Annotation, "value", encoded, "err", err)
	}
}
