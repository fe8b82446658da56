package dra_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

func TestOf(t *testing.T) {
	claim := func(called, kind string, controller bool) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "train", Name: "p-gpu-x7f"}}
		if called != "" {
			c.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: called}
		}
		if kind != "" {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "p", Controller: ptr.To(controller)}}
		}
		return c
	}
	const name = "train/p-gpu-x7f"
	require.Equal(t, "gpu of the pod", dra.Of(claim("gpu", "Pod", true)))
	require.Equal(t, "gpu of the pod's group", dra.Of(claim("gpu", "PodGroup", true)))
	require.Equal(t, name, dra.Of(claim("", "", false)), "by name")
	require.Equal(t, name, dra.Of(claim("", "Pod", true)), "for extended resources")
	require.Equal(t, name, dra.Of(claim("gpu", "", false)), "made by somebody else")
	require.Equal(t, name, dra.Of(claim("gpu", "Pod", false)), "owned for another reason")
	require.Equal(t, name, dra.Of(claim("gpu", "Deployment", true)))
	require.Equal(t, name, dra.Of(claim("gpu of everybody\nelse", "Pod", true)), "no name of a claim in a pod")
}
