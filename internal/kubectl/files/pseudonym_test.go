package files_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/files"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// secrets are the beginnings of all names that must not be in a dump.
var secrets = []string{"secret", "Secret", "10.1.2.3"}

// world has "secret" in whatever is to be replaced, and in nothing else.
func world() whatif.Objects {
	var o whatif.Objects
	node := b.Node("secret-node-1", "zone", "secret-zone", "size", "8")
	node.Spec.Taints = []v1.Taint{{Key: "team", Value: "secret-team", Effect: v1.TaintEffectNoSchedule}}
	node.Spec.ProviderID = "cloud:///secret-instance"
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Message: "secret"}}
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.1.2.3"}}
	node.Status.Allocatable = b.Resources("cpu", "8", "memory", "32Gi", "pods", "110", resourceapi.ResourceDeviceClassPrefix+"secret-class", "1")
	node.Status.Capacity = node.Status.Allocatable
	o.Nodes = []*v1.Node{node, b.Node("secret-node-2")}

	class := b.WithConfig(b.Class("secret-class", b.OfDriver(b.Driver)), b.Driver, `{"host":"secret"}`)
	class.Annotations = map[string]string{"note": "secret"}
	o.Classes = []*resourceapi.DeviceClass{class}
	o.Slices = append(o.Slices,
		b.NodeSlice("secret-node-1", b.Device("gpu-0").Attr("model", "A100").Consumes("gpu-0", "memory", "40Gi"),
			b.Device("secret-node-1-gpu-1").Consumes("gpu-0", "memory", "40Gi")).Part(0, 2).Obj(),
		b.NodeSlice("secret-node-1").Counters("gpu-0", "memory", "60Gi").Part(1, 2).Obj(),
		b.Slice("secret-fabric").OnLabeled("zone", "secret-zone").Devices(b.Device("nic-0").Shared().Capacity("data", "10G")).Obj(),
	)
	o.TaintRules = []*resourceapi.DeviceTaintRule{b.TaintRule("secret-rule", b.Driver, "secret-node-1", "secret-node-1-gpu-1", "broken", resourceapi.DeviceTaintEffectNoSchedule)}
	o.TaintRules[0].Spec.Taint.Value = "secret-ticket"

	request := b.Request("gpu", "secret-class")
	template := b.Claim("secret-template", request).In("secret-space").Template()
	o.Templates = []*resourceapi.ResourceClaimTemplate{template}
	claim := b.Claim("secret-claim", request).In("secret-space").Config(b.Driver, `{"user":"secret"}`).Allocated("secret-node-1", "gpu-0")
	claim.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: "gpu", "other": "secret"}
	claim.GenerateName = "secret-"
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "secret-pod", UID: "uid-pod-secret-pod", Controller: ptr.To(true)}}
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields:      []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"secret-node-1"}}},
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "size", Operator: v1.NodeSelectorOpGt, Values: []string{"4"}}},
	}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "secret-pod", UID: "uid-pod-secret-pod"}}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: b.Driver, Pool: "secret-node-1", Device: "gpu-0", Data: &runtime.RawExtension{Raw: []byte(`{"a":"secret"}`)},
		NetworkData: &resourceapi.NetworkDeviceData{IPs: []string{"10.1.2.3/8"}},
		Conditions:  []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Done", Message: "secret", LastTransitionTime: metav1.Now()}},
	}}
	o.Claims = []*resourceapi.ResourceClaim{claim, b.Claim("secret-other", request).In("secret-space").Obj()}
	for _, name := range []string{"secret-pod", "secret-waiting"} {
		pod := b.Pod(name, b.Container("c", "cpu", "1", resourceapi.ResourceDeviceClassPrefix+"secret-class", "1"), func(p *v1.Pod) {
			p.Namespace, p.GenerateName = "secret-space", "secret-"
			p.Labels = map[string]string{"app": "secret-app", "type": "secret-type", "on": "true"}
			p.Spec.NodeSelector = map[string]string{"zone": "secret-zone", "driver": "secret"}
			p.Spec.Hostname = "secret-host"
			p.Spec.Volumes = []v1.Volume{{Name: "secret-volume", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "secret-pvc"}}}}
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "secret-app"}},
			}}
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "secret-node-1 is full"}}
		})
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("secret-template")}}
		o.Pods = append(o.Pods, pod)
	}
	o.Pods[0].Spec.NodeName, o.Pods[0].Status.Phase = "secret-node-1", v1.PodRunning
	o.Pods[0].Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("secret-claim")}}
	o.Missing = []whatif.Missing{
		{Resource: "pods", Why: "the right to list pods in all namespaces is missing; only those of namespace secret-mine are known"},
		{Resource: "what claim secret-space/secret-other asks for", Why: "Get https://secret.example.com: no"},
	}
	return o
}

// text is a dump, unpacked.
func text(t *testing.T, o whatif.Objects) string {
	t.Helper()
	var dump bytes.Buffer
	require.NoError(t, whatif.WriteDump(&dump, o))
	unpacked, err := gzip.NewReader(&dump)
	require.NoError(t, err)
	all, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	return string(all)
}

func TestNoNameIsLeft(t *testing.T) {
	hashed, err := files.Replace(world())
	require.NoError(t, err)
	dump := text(t, hashed)
	for _, secret := range secrets {
		if at := strings.Index(dump, secret); at >= 0 {
			t.Errorf("%q is left: …%s…", secret, dump[max(0, at-80):min(len(dump), at+80)])
		}
	}
	require.Contains(t, text(t, world()), "secret-node-1", "without Replace, it is there")
}

// TestReferencesHold: references still name the same objects.
func TestReferencesHold(t *testing.T) {
	before := world()
	after, err := files.Replace(before)
	require.NoError(t, err)
	node, slice, claim, pod := after.Nodes[0], after.Slices[0], after.Claims[0], after.Pods[0]
	require.Equal(t, node.Name, *slice.Spec.NodeName)
	require.Equal(t, node.Name, slice.Spec.Pool.Name, "pools that are called as their node")
	require.Equal(t, node.Name, claim.Status.Allocation.Devices.Results[0].Pool)
	require.Equal(t, node.Name, node.Labels["kubernetes.io/hostname"])
	require.Equal(t, node.Name, pod.Spec.NodeName)
	require.Equal(t, node.Name, claim.Status.Allocation.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Values[0])
	require.Equal(t, []string{"4"}, claim.Status.Allocation.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values, "it is compared as a number")
	require.Equal(t, node.Labels["zone"], pod.Spec.NodeSelector["zone"])
	require.Equal(t, node.Labels["zone"], after.Slices[2].Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values[0])
	require.Equal(t, "8", node.Labels["size"])
	require.Equal(t, pod.Name, claim.Status.ReservedFor[0].Name)
	require.Equal(t, pod.UID, claim.Status.ReservedFor[0].UID)
	require.Equal(t, pod.UID, claim.OwnerReferences[0].UID)
	require.Equal(t, claim.Namespace, pod.Namespace)
	require.Equal(t, claim.Name, *pod.Status.ResourceClaimStatuses[0].ResourceClaimName)
	require.Equal(t, after.Templates[0].Name, *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName)
	require.Equal(t, after.Classes[0].Name, claim.Spec.Devices.Requests[0].Exactly.DeviceClassName)
	require.Contains(t, pod.Spec.Containers[0].Resources.Requests, v1.ResourceName(resourceapi.ResourceDeviceClassPrefix+after.Classes[0].Name))
	require.Contains(t, node.Status.Capacity, v1.ResourceName(resourceapi.ResourceDeviceClassPrefix+after.Classes[0].Name))
	require.Equal(t, "gpu-0", slice.Spec.Devices[0].Name, "no object is called so")
	require.Equal(t, node.Name+"-gpu-1", slice.Spec.Devices[1].Name)
	require.Equal(t, slice.Spec.Devices[1].Name, *after.TaintRules[0].Spec.DeviceSelector.Device)
	require.Equal(t, before.Slices[0].Spec.Devices[0].Attributes, slice.Spec.Devices[0].Attributes)
	require.Equal(t, before.Classes[0].Spec.Selectors, after.Classes[0].Spec.Selectors)
	require.Equal(t, "gpu", claim.Annotations[resourceapi.PodResourceClaimAnnotation])
	require.Less(t, after.Nodes[0].Name, after.Nodes[1].Name, "the order stays")
	require.Equal(t, "10G", ptr.To(after.Slices[2].Spec.Devices[0].Capacity["data"].Value).String(), "a capacity may have any name")

	again, err := files.Replace(before)
	require.NoError(t, err)
	require.NotEqual(t, node.Name, again.Nodes[0].Name, "another key")
}

var (
	original = regexp.MustCompile(`\b(uid-(pod-)?)?secret(-[a-z]+(-[0-9])?)?\b`)
	shareID  = regexp.MustCompile(`"shareID":"[^"]*"`)
	replaced = regexp.MustCompile(`\bn[0-9]+-[0-9a-f]{8}\b`)
)

// TestAnswersStay: a pod would get the same, and is told the same.
func TestAnswersStay(t *testing.T) {
	before := world()
	after, err := files.Replace(before)
	require.NoError(t, err)
	answers := func(o whatif.Objects, names *regexp.Regexp) string {
		o.Missing = nil
		pod := o.Pods[1].DeepCopy()
		pod.GenerateName, pod.Status, pod.Spec.Volumes, pod.Spec.TopologySpreadConstraints, pod.Spec.Containers = "", v1.PodStatus{}, nil, nil, nil
		pod.Spec.Hostname = "" // It is left out.
		delete(pod.Spec.NodeSelector, "driver")
		pod.Spec.Tolerations = []v1.Toleration{{Key: "team", Value: o.Nodes[0].Spec.Taints[0].Value}}
		answer, err := whatif.New(o, whatif.Options{}).Fit(t.Context(), pod)
		require.NoError(t, err)
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		// IDs of shares depend on names.
		return names.ReplaceAllString(shareID.ReplaceAllString(string(text), `"shareID":""`), "NAME")
	}
	want := answers(before, original)
	require.Contains(t, want, `"Verdict":"Fits"`)
	want = strings.ReplaceAll(want, `"parameters":{"host":"NAME"}`, `"parameters":{}`) // They are left out.
	require.Equal(t, want, answers(after, replaced))
}
