// Package claimname says how to call a claim in what the user of a pod gets to read.
package claimname

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
)

// Of returns "namespace/name", or for a claim that was made from a template what the pod, or
// the group of pods, that it was made for calls it: "gpu of the pod". The user does not know
// such a claim by its name, which is another one for each replica.
func Of(claim *resourceapi.ResourceClaim) string {
	// Anybody may write annotations; what is no name of a claim in a pod is none here.
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
