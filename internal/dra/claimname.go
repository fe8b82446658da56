// Package dra reads claims of Dynamic Resource Allocation: their names in messages for the users of pods, and their
// requests with alternatives.
package dra

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
)

// Of returns "namespace/name" for most claims. For a claim that was made from a template, it
// returns the name of the claim in the pod or group of pods that it was made for: "gpu of the pod".
// The user does not know the name of such a claim, which differs for each replica.
func Of(claim *resourceapi.ResourceClaim) string {
	// Any user may write annotations. A value that cannot be a claim's name in a pod is ignored.
	if called := claim.Annotations[resourceapi.PodResourceClaimAnnotation]; len(validation.IsDNS1123Label(called)) == 0 {
		switch owner := metav1.GetControllerOfNoCopy(claim); {
		case owner == nil:
		case owner.Kind == "Pod":
			return called + " of the pod"
		case owner.Kind == "PodGroup":
			return called + " of the pod's group"
		}
	}
	return klog.KObj(claim).String()
}
