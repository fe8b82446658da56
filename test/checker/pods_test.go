package checker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// podCluster has two nodes with one device each, and the given objects.
func podCluster(pod *corev1.Pod, claims ...*resourceapi.ResourceClaim) cluster {
	return cluster{
		nodes: []*corev1.Node{newNode("node-a"), newNode("node-b")},
		slices: []*resourceapi.ResourceSlice{
			newSlice("a", "node-a", builder.Device("gpu-0")),
			newSlice("b", "node-b", builder.Device("gpu-0")),
		},
		claims: claims,
		pods:   []*corev1.Pod{pod},
	}
}

// ready returns a claim that is allocated on node-a and reserved for pod "one".
func ready(name string, builders ...claimBuilder) *resourceapi.ResourceClaim {
	return newClaim(name, append([]claimBuilder{
		request("gpu", 1), allocated("gpu", "node-a", "gpu-0"), onNode("node-a"), reserved("one"),
	}, builders...)...)
}

func TestBoundPods(t *testing.T) {
	bound := func(builders ...podBuilder) *corev1.Pod {
		return newPod("one", append([]podBuilder{boundTo("node-a")}, builders...)...)
	}
	extended := func(pod *corev1.Pod) {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "x"}
	}
	unnecessary := func(pod *corev1.Pod) {
		usesTemplate("gpus", "")(pod)
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpus"}}
	}
	reservedForOther := ready("x")
	reservedForOther.Status.ReservedFor[0].UID = "other-uid"
	otherNamespace := ready("x")
	otherNamespace.Namespace = "eval"
	const missing, notReady = "PodClaimMissing pod train/one", "PodClaimNotReady pod train/one"
	runAll(t, map[string]testCase{
		"ready":                        {cluster: podCluster(bound(uses("x")), ready("x"))},
		"generated, ready":             {cluster: podCluster(bound(usesTemplate("gpus", "x")), ready("x", generatedFor("one", "gpus")))},
		"no claim was necessary":       {cluster: podCluster(bound(unnecessary))},
		"not bound":                    {cluster: podCluster(newPod("one", uses("x"), usesTemplate("gpus", "")))},
		"finished":                     {cluster: podCluster(bound(uses("x"), phase(corev1.PodSucceeded)))},
		"claim does not exist":         {cluster: podCluster(bound(uses("x"))), want: []string{missing}, wantTexts: []string{"claim x does not exist", "node-a"}},
		"claim in another namespace":   {cluster: podCluster(bound(uses("x")), otherNamespace), want: []string{missing}},
		"claim was not generated":      {cluster: podCluster(bound(usesTemplate("gpus", ""))), want: []string{missing}, wantTexts: []string{"gpus"}},
		"claim without owner":          {cluster: podCluster(bound(usesTemplate("gpus", "x")), ready("x")), want: []string{missing}},
		"claim of another pod":         {cluster: podCluster(bound(usesTemplate("gpus", "x")), ready("x", generatedFor("two", "gpus"))), want: []string{missing}},
		"claim of another entry":       {cluster: podCluster(bound(usesTemplate("gpus", "x")), ready("x", generatedFor("one", "nics"))), want: []string{missing}, wantTexts: []string{"nics"}},
		"claim is not allocated":       {cluster: podCluster(bound(uses("x")), newClaim("x", request("gpu", 1))), want: []string{notReady}, wantTexts: []string{"not allocated"}},
		"claim is not reserved":        {cluster: podCluster(bound(uses("x")), reservedForOther), want: []string{notReady}, wantTexts: []string{"one-uid"}},
		"second claim is not reserved": {cluster: podCluster(bound(uses("x"), uses("y")), ready("x"), ready("y", adminAccess, func(claim *resourceapi.ResourceClaim) { claim.Status.ReservedFor = nil })), want: []string{notReady}, wantTexts: []string{"claim y"}},
		"extended resources, ready":    {cluster: podCluster(bound(extended), ready("x", generatedFor("one", "")))},
		"extended resources, missing":  {cluster: podCluster(bound(extended)), want: []string{missing}},
	})
}

func TestPodsInGroups(t *testing.T) {
	ofGroup := func(name string) podBuilder {
		return func(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
	}
	forGroup := func(claim *resourceapi.ResourceClaim) {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: schedulingGroup + "/v1beta1", Kind: "PodGroup", Name: "group", UID: "group-uid", Controller: ptr.To(true)}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: schedulingGroup, Resource: "podgroups", Name: "group", UID: "group-uid"}}
	}
	pod := func(builders ...podBuilder) *corev1.Pod {
		return newPod("one", append([]podBuilder{boundTo("node-a"), usesTemplate("gpus", "x")}, builders...)...)
	}
	const missing, notReady = "PodClaimMissing pod train/one", "PodClaimNotReady pod train/one"
	runAll(t, map[string]testCase{
		"claim of its group":     {cluster: podCluster(pod(ofGroup("group")), ready("x", forGroup))},
		"claim of another group": {cluster: podCluster(pod(ofGroup("other")), ready("x", forGroup)), want: []string{missing, notReady}},
		"pod without group":      {cluster: podCluster(pod(), ready("x", forGroup)), want: []string{missing, notReady}},
	})
}

func TestNodes(t *testing.T) {
	onRack := func(rack string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{rack}}},
		}}}
	}
	invalid := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: "Near", Values: []string{"node-a"}}},
	}}}
	claim := func(selector *corev1.NodeSelector) *resourceapi.ResourceClaim {
		claim := ready("x")
		claim.Status.Allocation.NodeSelector = selector
		return claim
	}
	// published changes where the device of the claim can be used.
	published := func(change func(*resourceapi.ResourceSliceSpec)) cluster {
		c := podCluster(newPod("one", boundTo("node-a"), uses("x")), claim(nil))
		c.slices[0].Spec.NodeName = nil
		change(&c.slices[0].Spec)
		return c
	}
	perDevice := func(change func(*resourceapi.Device)) cluster {
		return published(func(spec *resourceapi.ResourceSliceSpec) {
			spec.PerDeviceNodeSelection = ptr.To(true)
			change(&spec.Devices[0])
		})
	}
	onNode := func(node string, selector *corev1.NodeSelector) cluster {
		c := podCluster(newPod("one", boundTo(node), uses("x")), claim(selector))
		c.slices[0].Spec.NodeName, c.slices[0].Spec.AllNodes = nil, ptr.To(true)
		return c
	}
	wrong := []string{"PodOnWrongNode pod train/one"}
	runAll(t, map[string]testCase{
		"selector of the allocation matches":  {cluster: onNode("node-a", onRack("node-a"))},
		"no selector":                         {cluster: onNode("node-b", nil)},
		"node is gone":                        {cluster: onNode("node-z", onRack("node-a"))},
		"selector does not match":             {cluster: onNode("node-b", onRack("node-a")), want: wrong, wantTexts: []string{"node-b", "claim x"}},
		"selector is invalid":                 {cluster: onNode("node-a", invalid), want: wrong},
		"device of another node":              {cluster: podCluster(newPod("one", boundTo("node-b"), uses("x")), claim(nil)), want: wrong, wantTexts: []string{"gpu.example.com/node-a/gpu-0"}},
		"slice for all nodes":                 {cluster: published(func(spec *resourceapi.ResourceSliceSpec) { spec.AllNodes = ptr.To(true) })},
		"slice with matching selector":        {cluster: published(func(spec *resourceapi.ResourceSliceSpec) { spec.NodeSelector = onRack("node-a") })},
		"slice with another selector":         {cluster: published(func(spec *resourceapi.ResourceSliceSpec) { spec.NodeSelector = onRack("node-b") }), want: wrong},
		"slice for no node":                   {cluster: published(func(*resourceapi.ResourceSliceSpec) {}), want: wrong},
		"per device, this node":               {cluster: perDevice(func(device *resourceapi.Device) { device.NodeName = ptr.To("node-a") })},
		"per device, another node":            {cluster: perDevice(func(device *resourceapi.Device) { device.NodeName = ptr.To("node-b") }), want: wrong},
		"per device, all nodes":               {cluster: perDevice(func(device *resourceapi.Device) { device.AllNodes = ptr.To(true) })},
		"per device, matching selector":       {cluster: perDevice(func(device *resourceapi.Device) { device.NodeSelector = onRack("node-a") })},
		"per device, selector does not match": {cluster: perDevice(func(device *resourceapi.Device) { device.NodeSelector = onRack("node-b") }), want: wrong},
	})
}
