package checker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// extendedName is what a class may stand for.
const extendedName = "example.com/gpu"

// askingWorld is waitingWorld with a pod that waits with extended resources in the place of a claim.
func askingWorld(amount, class string, change ...func(*cluster)) cluster {
	return waitingWorld(append([]func(*cluster){func(c *cluster) {
		c.claims = c.claims[:1]
		c.pods[1] = newPod("waits", builder.Container("c"), builder.Extended(extendedName, amount))
		c.others[0].(*resourceapi.DeviceClass).Spec.ExtendedResourceName = ptr.To(class)
	}}, change...)...)
}

// TestWaitingForExtendedResources: devices back what no device plugin offers, if a class stands for it.
func TestWaitingForExtendedResources(t *testing.T) {
	offers := func(amount string) func(*cluster) {
		return func(c *cluster) { c.nodes[0].Status.Allocatable[extendedName] = resource.MustParse(amount) }
	}
	// left is a claim that an earlier attempt has made, with the device that is free.
	left := func(c *cluster) {
		claim := newClaim("left", ofClass("r", 1), allocated("r", "node-a", "gpu-1"), generatedFor("waits", ""), reserved("waits"))
		claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
		c.claims = append(c.claims, claim)
		c.pods[1].Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "left"}
	}
	recorded := func(c *cluster) {
		c.pods[1].Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "gone"}
	}
	implicit := func(c *cluster) {
		c.pods[1] = newPod("waits", builder.Container("c"), builder.Extended(corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix+"gpus"), "1"))
	}
	could := []string{"PodCouldRun pod train/waits"}
	for name, test := range map[string]testCase{
		"a device is free":                                            {cluster: askingWorld("1", extendedName), want: could, wantTexts: []string{"pod waits on node node-a with gpu.example.com/node-a/gpu-1 for claim waits (extended resources)"}},
		"two are not":                                                 {cluster: askingWorld("2", extendedName)},
		"no class stands for it":                                      {cluster: askingWorld("1", "example.com/other")},
		"it is the name of the class":                                 {cluster: askingWorld("1", "example.com/other", implicit), want: could},
		"there is no class of that name":                              {cluster: askingWorld("1", extendedName, implicit, func(c *cluster) { c.others = nil })},
		"a device plugin offers it":                                   {cluster: askingWorld("2", extendedName, offers("2")), want: could},
		"a device plugin offers less":                                 {cluster: askingWorld("2", extendedName, offers("1"))},
		"a device plugin offers it no more":                           {cluster: askingWorld("1", extendedName, offers("0")), want: could},
		"its status names a claim, and a device plugin offers it":     {cluster: askingWorld("2", extendedName, offers("2"), recorded)},
		"its status names a claim that is gone, and a device is free": {cluster: askingWorld("1", extendedName, recorded), want: could},
		"another attempt has left its device":                         {cluster: askingWorld("1", extendedName, left), want: could},
	} {
		test.options = Options{Settled: true, Served: servedHere}
		t.Run(name, test.run)
	}
}

// TestDevicesFor: init containers use the devices of those that come after them.
func TestDevicesFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		edits []func(*corev1.Pod)
		want  int64
	}{
		{want: 3, edits: []func(*corev1.Pod){builder.Container("a", extendedName, "2"), builder.Container("b", extendedName, "1")}},
		{want: 3, edits: []func(*corev1.Pod){builder.InitContainer("i", extendedName, "3"), builder.Container("a", extendedName, "2")}},
		{want: 2, edits: []func(*corev1.Pod){builder.InitContainer("i", extendedName, "1"), builder.InitContainer("j", extendedName, "2"), builder.Container("a", extendedName, "1")}},
		{want: 3, edits: []func(*corev1.Pod){builder.InitContainer("i", extendedName, "1"), builder.Sidecar("s", extendedName, "2"), builder.Container("a", extendedName, "1")}},
		{want: 5, edits: []func(*corev1.Pod){builder.Sidecar("s", extendedName, "2"), builder.InitContainer("i", extendedName, "3"), builder.Container("a")}},
		{want: 0, edits: []func(*corev1.Pod){builder.Container("a", "cpu", "2")}},
	} {
		pod := &corev1.Pod{}
		for _, edit := range test.edits {
			edit(pod)
		}
		require.Equal(t, test.want, devicesFor(pod, extendedName))
	}
}

// TestClassBehind: the class that was created last stands for a resource, then the first by name.
func TestClassBehind(t *testing.T) {
	t.Parallel()
	at := func(name string, seconds int64) *resourceapi.DeviceClass {
		class := builder.Class(name)
		class.CreationTimestamp, class.Spec.ExtendedResourceName = metav1.NewTime(time.Unix(seconds, 0)), ptr.To(extendedName)
		return class
	}
	require.Equal(t, "b", classes{at("a", 1), at("b", 2), at("c", 2)}.behind(extendedName).Name)
	require.Nil(t, classes{at("a", 1)}.behind("example.com/other"))
	require.Nil(t, classes{at("a", 1)}.behind(corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix+"b")))
}
