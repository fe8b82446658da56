package whatif_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// A claim that would be made from a template takes the place of no other claim: the API server generates names.
func TestPlannedClaimsHaveNamesOfTheirOwn(t *testing.T) {
	o := cluster(1, 1)
	holding(&o, "a-gpu", "node-0000", "gpu-0")
	s := whatif.New(o, whatif.Options{})
	answer := fit(t, s, user("a", "one"))
	require.Equal(t, whatif.DoesNotFit, answer.Verdict)

	two := whatif.New(func() whatif.Objects { o := cluster(1, 2); holding(&o, "a-gpu", "node-0000", "gpu-0"); return o }(), whatif.Options{})
	from := func(name, reference string) *v1.Pod {
		return user(name, "one", func(p *v1.Pod) { p.Spec.ResourceClaims[0].Name = reference })
	}
	answer = fit(t, two, from("a", "gpu"), from("b", "gpu"))
	assert.Equal(t, whatif.DoesNotFit, answer.Verdict)
	assert.Len(t, answer.Plans, 1)

	answer = fit(t, whatif.New(cluster(1, 2), whatif.Options{}), from("a", "b-c"), from("a-b", "c"), from("x", "y"))
	assert.Equal(t, whatif.DoesNotFit, answer.Verdict)
	assert.Len(t, answer.Plans, 2)
}

// A resource that a device plugin offers is asked for along with one for which devices stand.
func TestExtendedResourceWithOther(t *testing.T) {
	o := cluster(1, 1)
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	o.Nodes[0].Status.Allocatable["example.com/nic"] = resource.MustParse("1")
	pod := builder.Pod("a", builder.Container("main", "example.com/gpu", "1", "example.com/nic", "1"))
	assert.Equal(t, whatif.Fits, fit(t, whatif.New(o, whatif.Options{}), pod).Verdict)
	delete(o.Nodes[0].Status.Allocatable, "example.com/nic")
	assert.Equal(t, whatif.DoesNotFit, fit(t, whatif.New(o, whatif.Options{}), pod).Verdict)
}

// A node that offers none of a resource any more, as after its device plugin has gone, is one for devices.
func TestExtendedResourceZero(t *testing.T) {
	o := cluster(1, 1)
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	o.Nodes[0].Status.Allocatable["example.com/gpu"] = resource.MustParse("0")
	pod := builder.Pod("a", builder.Container("main", "example.com/gpu", "1"))
	answer := fit(t, whatif.New(o, whatif.Options{}), pod)
	require.Equal(t, whatif.Fits, answer.Verdict)
	assert.Len(t, answer.Plans[0].Claims, 1)
}

// A class that was edited and given back has the UID and version of the one before.
func TestClassEdited(t *testing.T) {
	o := cluster(1, 1)
	o.Classes[0].UID, o.Classes[0].ResourceVersion = "u", "7"
	s := whatif.New(o, whatif.Options{})
	require.Equal(t, whatif.Fits, fit(t, s, user("a", "one")).Verdict)
	edited := o.Classes[0].DeepCopy()
	edited.Spec.Selectors[0].CEL.Expression = "device.driver == 'another.example.com'"
	with := s.With(whatif.Objects{Classes: []*resourceapi.DeviceClass{edited}})
	assert.Equal(t, whatif.DoesNotFit, fit(t, with, user("a", "one")).Verdict)
	assert.Equal(t, whatif.Fits, fit(t, s, user("a", "one")).Verdict)
	back := with.With(whatif.Objects{Classes: o.Classes})
	assert.Equal(t, whatif.Fits, fit(t, back, user("a", "one")).Verdict)
}

// A claim that a pod refers to twice is allocated once.
func TestClaimReferredToTwice(t *testing.T) {
	o := cluster(1, 1)
	o.Claims = append(o.Claims, builder.Claim("c", builder.Request("gpu", builder.Driver)).Obj())
	pod := builder.Pod("a", builder.Using(builder.Uses("c")...))
	second := pod.Spec.ResourceClaims[0]
	second.Name = "second"
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, second)
	assert.Equal(t, whatif.Fits, fit(t, whatif.New(o, whatif.Options{}), pod).Verdict)
}

// Pods on an unknown node count once the node exists.
func TestNodeComesBack(t *testing.T) {
	o := cluster(1, 1)
	nodes := o.Nodes
	o.Nodes = nil
	o.Pods = append(o.Pods, builder.Pod("there", builder.Container("main", "cpu", "7"), func(p *v1.Pod) { p.Spec.NodeName = nodes[0].Name }))
	more := whatif.Objects{Nodes: nodes}
	with := whatif.New(o, whatif.Options{}).With(more)
	pod := user("a", "one", builder.Container("main", "cpu", "2"))
	assert.Equal(t, whatif.DoesNotFit, fit(t, with, pod).Verdict)
	without, err := with.Without(whatif.Removal{Pods: []string{"default/there"}})
	require.NoError(t, err)
	assert.Equal(t, whatif.Fits, fit(t, without, pod).Verdict)
}

// Claims from a file have no UID, and are not taken for each other.
func TestClaimsWithoutUID(t *testing.T) {
	o := cluster(1, 0)
	o.Slices[0] = builder.NodeSlice("node-0000", builder.Device("gpu-0").Shared().Capacity("memory", "10Gi")).Obj()
	share := func(name string) *resourceapi.ResourceClaim {
		claim := builder.Claim(name, builder.Request("gpu", builder.Driver).Capacity("memory", "5Gi")).Obj()
		claim.UID = ""
		return claim
	}
	s := whatif.New(o, whatif.Options{}).With(whatif.Objects{Claims: []*resourceapi.ResourceClaim{share("a"), share("b"), share("c"), share("d")}})
	answer := fit(t, s, builder.Pod("a", builder.Using(builder.Uses("a")...)), builder.Pod("b", builder.Using(builder.Uses("b")...)))
	require.Equal(t, whatif.Fits, answer.Verdict)
	without, err := answer.After.Without(whatif.Removal{Pods: []string{"default/a"}})
	require.NoError(t, err)
	answer = fit(t, without, builder.Pod("c", builder.Using(builder.Uses("c")...)), builder.Pod("d", builder.Using(builder.Uses("d")...)))
	assert.Len(t, answer.Plans, 1)
}

// What a planned pod got is free when it is gone.
func TestWithoutPlannedPod(t *testing.T) {
	o := cluster(1, 1)
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	for name, pod := range map[string]*v1.Pod{
		"template":          user("a", "one"),
		"template, no UID":  user("a", "one", func(p *v1.Pod) { p.UID = "" }),
		"extended resource": builder.Pod("a", builder.Container("main", "example.com/gpu", "1")),
	} {
		t.Run(name, func(t *testing.T) {
			answer := fit(t, whatif.New(o, whatif.Options{}), pod)
			require.Equal(t, whatif.Fits, answer.Verdict)
			require.Equal(t, whatif.DoesNotFit, fit(t, answer.After, user("b", "one")).Verdict)
			without, err := answer.After.Without(whatif.Removal{Pods: []string{"default/a"}})
			require.NoError(t, err)
			assert.Equal(t, whatif.Fits, fit(t, without, user("b", "one")).Verdict)
			assert.Empty(t, without.Claims())
		})
	}
}

// A pod with spec.nodeName goes there or nowhere.
func TestNodeName(t *testing.T) {
	s := whatif.New(cluster(2, 1), whatif.Options{})
	at := func(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = name } }
	answer := fit(t, s, user("a", "one", at("node-0001")))
	require.Equal(t, whatif.Fits, answer.Verdict)
	assert.Equal(t, "node-0001", answer.Plans[0].Node)
	assert.Equal(t, whatif.DoesNotFit, fit(t, s, user("a", "one", at("node-7"))).Verdict)
}

// A pod that is asked for twice is no two pods.
func TestSamePodTwice(t *testing.T) {
	s := whatif.New(cluster(1, 2), whatif.Options{})
	pod := user("a", "one")
	_, err := s.Fit(t.Context(), pod, pod, pod)
	require.ErrorContains(t, err, "default/a")
}

// What a slice of the same name was before is gone, even if it was of another pool.
func TestSliceOfAnotherPool(t *testing.T) {
	o := cluster(2, 1)
	moved := o.Slices[0].DeepCopy()
	moved.Spec.Pool.Name, moved.Spec.NodeName = "other", ptr.To("node-0001")
	s := whatif.New(o, whatif.Options{}).With(whatif.Objects{Slices: []*resourceapi.ResourceSlice{moved}})
	answer := fit(t, s, user("a", "one"), user("b", "one"), user("c", "one"))
	assert.Equal(t, []string{"node-0001", "node-0001"}, nodesOf(answer))
}

// Slices without a name replace no others without one.
func TestMoreSlicesWithoutNames(t *testing.T) {
	o := cluster(3, 0)
	o.Slices = nil
	part := func(node, device string, parts int64) *resourceapi.ResourceSlice {
		slice := builder.Slice("").InPool(node, 1, parts).OnNode(node).Devices(builder.Device(device)).Obj()
		slice.Name = ""
		return slice
	}
	o.Slices = []*resourceapi.ResourceSlice{part("node-0000", "x", 1), part("node-0001", "x", 2)}
	s := whatif.New(o, whatif.Options{}).With(whatif.Objects{Slices: []*resourceapi.ResourceSlice{part("node-0001", "y", 2)}})
	answer := fit(t, s, user("a", "one"), user("b", "one"), user("c", "one"))
	assert.Equal(t, whatif.Fits, answer.Verdict)
}

// The claim of another pod is not for this one.
func TestClaimOfAnotherPod(t *testing.T) {
	o := cluster(1, 1)
	claim := builder.Claim("other-gpu", builder.Request("gpu", builder.Driver)).Obj()
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "other", UID: "other", Controller: ptr.To(true)}}
	o.Claims = append(o.Claims, claim)
	pod := user("a", "one", func(p *v1.Pod) {
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: p.Spec.ResourceClaims[0].Name, ResourceClaimName: ptr.To("other-gpu")}}
	})
	assert.Equal(t, whatif.DoesNotFit, fit(t, whatif.New(o, whatif.Options{}), pod).Verdict)
}

// Nothing that is missing in a dump that was edited makes anything panic.
func TestMalformed(t *testing.T) {
	for _, text := range []string{
		"nodes: [null]", "pods: [null]", "slices: [null]", "claims: [null]", "classes: [null]", "templates: [null]", "taintRules: [null]",
		"nodes: [{}]", "pods: [{}]", "slices: [{}]", "claims: [{}]", "classes: [{}]", "templates: [{}]", "taintRules: [{}]",
		"pods: [{spec: {nodeName: n1, resourceClaims: [{}]}}]",
		"claims: [{metadata: {name: c, namespace: default}, spec: {devices: {requests: [{name: r}]}}, status: {reservedFor: [{}]}}]",
		"claims: [{metadata: {name: c, namespace: default}, status: {allocation: {}}}]",
		"claims: [{metadata: {name: c, namespace: default}, status: {allocation: {devices: {results: [{}]}}}}]",
		"claims: [{metadata: {name: c, namespace: default}, status: {allocation: {nodeSelector: {}}}}]",
		"claims: [{metadata: {name: c, namespace: default}, status: {allocation: {nodeSelector: {nodeSelectorTerms: [{}]}}}}]",
		"claims: [{metadata: {name: c, namespace: default}, spec: {devices: {requests: [{name: r, exactly: {}}]}}}]",
		"claims: [{metadata: {name: c, namespace: default}, spec: {devices: {requests: [{name: r, firstAvailable: [{}]}], constraints: [{}]}}}]",
		"claims: [{metadata: {name: c, namespace: default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com, allocationMode: ExactCount, count: -3, selectors: [{}]}}]}}}]",
		"claims: [{metadata: {name: c, namespace: default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com, allocationMode: ExactCount, count: 9223372036854775807}}]}}}]",
		"classes: [{metadata: {name: gpu.example.com}, spec: {selectors: [{}]}}]",
		"slices: [{metadata: {name: s}, spec: {driver: gpu.example.com, nodeName: n1, pool: {name: p}, devices: [{}, {}, {name: a, attributes: {b: {}}, consumesCounters: [{}]}], sharedCounters: [{}]}}]",
		"slices: [{metadata: {name: s}, spec: {driver: gpu.example.com, nodeName: n1, pool: {name: p, resourceSliceCount: 1}, devices: [{name: a, attributes: {b: {}}, capacity: {c: {}}, taints: [{}]}]}}]",
		"slices: [{metadata: {name: s}, spec: {driver: gpu.example.com, nodeSelector: {}, pool: {name: p, resourceSliceCount: 1}, devices: [{name: a}]}}]",
		"slices: [{metadata: {name: s}, spec: {driver: gpu.example.com, perDeviceNodeSelection: true, pool: {name: p, resourceSliceCount: 1}, devices: [{name: a}, {name: b, nodeSelector: {}}]}}]",
		"taintRules: [{metadata: {name: t}, spec: {deviceSelector: {}}}]",
		"nodes: [{metadata: {name: n1}, spec: {taints: [{}]}}]",
	} {
		t.Run(text, func(t *testing.T) {
			o, err := whatif.ReadDump(bytes.NewBufferString("kind: DevicesDump\napiVersion: quartermaster-dra.io/v1alpha1\n" + text))
			if strings.Contains(text, "null") {
				require.ErrorContains(t, err, "entry 0 of ")
				return
			}
			require.NoError(t, err)
			require.NotPanics(t, func() { askAll(t, o) })
		})
	}
}

// askAll asks everything of a world and of ones derived from it.
func askAll(t *testing.T, o whatif.Objects) {
	t.Helper()
	good := cluster(1, 1)
	for _, s := range []*whatif.Snapshot{whatif.New(o, whatif.Options{}), whatif.New(good, whatif.Options{}).With(o), whatif.New(o, whatif.Options{}).With(good)} {
		for _, pod := range []*v1.Pod{user("a", "one"), builder.Pod("a", builder.Using(builder.Uses("c")...), func(p *v1.Pod) { p.Spec.Priority = ptr.To(int32(5)) }), {}} {
			answer, err := s.Fit(t.Context(), pod)
			require.NoError(t, err)
			_, err = answer.After.Explain(t.Context(), pod)
			require.NoError(t, err)
			_, _, err = s.PossibleVictims(t.Context(), pod, "n1")
			require.NoError(t, err)
		}
		for _, claim := range s.Claims() {
			_, err := s.Without(whatif.Removal{Claims: []string{whatif.Key(claim)}})
			require.NoError(t, err)
		}
		for _, pod := range s.Pods() {
			_, err := s.Without(whatif.Removal{Pods: []string{whatif.Key(pod)}})
			require.NoError(t, err)
		}
		s.Pools()
		require.NoError(t, whatif.WriteDump(&bytes.Buffer{}, o))
	}
}

// What is only in status or annotations and does not matter for devices is not in a dump, and what matters is.
func TestDumpSecrets(t *testing.T) {
	o := someCluster()
	const secret = "very secret"
	for _, object := range []metav1.Object{o.Nodes[0], o.Slices[0], o.Claims[0], o.Templates[0], o.Classes[0], o.Pods[0]} {
		object.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": secret})
	}
	o.Templates[0].Spec.Annotations = map[string]string{"x": secret}
	opaque := func() resourceapi.DeviceConfiguration {
		return builder.Opaque(builder.Driver, `{"token": "`+secret+`"}`)
	}
	o.Claims[0].Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: opaque()}}
	o.Claims[0].Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{DeviceConfiguration: opaque()}}
	o.Templates[0].Spec.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: opaque()}}
	o.Classes[0].Spec.Config = []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: opaque()}}
	o.Claims[0].Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: builder.Driver, Pool: "node-0000", Device: "gpu-0", Data: &opaqueData}}
	o.Pods[0].Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"x": secret}}}}}
	o.Pods[0].Spec.HostAliases = []v1.HostAlias{{Hostnames: []string{secret}}}
	o.Nodes[0].Status.DeclaredFeatures = []string{"Some"}
	var file bytes.Buffer
	require.NoError(t, whatif.WriteDump(&file, o))
	read, err := whatif.ReadDump(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	assert.NotContains(t, unzipped(t, file.Bytes()), secret)
	assert.Equal(t, []string{"Some"}, read.Nodes[0].Status.DeclaredFeatures)
	assert.Contains(t, string(o.Claims[0].Spec.Devices.Config[0].Opaque.Parameters.Raw), secret, "the original is as it was")
	sameWorld(t, read)
}

// Devices alone would not do on a node that lacks CPU as well.
func TestNearLacksMore(t *testing.T) {
	o := cluster(2, 1)
	holding(&o, "h0", "node-0000", "gpu-0")
	holding(&o, "h1", "node-0001", "gpu-0")
	o.Nodes[0].Status.Allocatable["cpu"] = resource.MustParse("1")
	e, err := whatif.New(o, whatif.Options{}).Explain(t.Context(), user("a", "one", builder.Container("main", "cpu", "2")))
	require.NoError(t, err)
	require.NotEmpty(t, e.Nearest)
	assert.Equal(t, "node-0001", e.Nearest[0].Node)
	require.Len(t, e.Nearest, 2)
	assert.Contains(t, e.Nearest[1].Lacking, "more cpu: 2 asked, 1 free")
}

// A resized pod takes the amount that the kubelet reports, as long as that is more.
func TestResized(t *testing.T) {
	o := cluster(1, 1)
	o.Pods = append(o.Pods, builder.Pod("there", builder.Container("main", "cpu", "1"), func(p *v1.Pod) {
		p.Spec.NodeName = "node-0000"
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", AllocatedResources: builder.Resources("cpu", "7"),
			Resources: &v1.ResourceRequirements{Requests: builder.Resources("cpu", "7")}}}
	}))
	pod := user("a", "one", builder.Container("main", "cpu", "2"))
	assert.Equal(t, whatif.DoesNotFit, fit(t, whatif.New(o, whatif.Options{}), pod).Verdict)
	var file bytes.Buffer
	require.NoError(t, whatif.WriteDump(&file, o))
	read, err := whatif.ReadDump(&file)
	require.NoError(t, err)
	assert.Equal(t, whatif.DoesNotFit, fit(t, whatif.New(read, whatif.Options{}), pod).Verdict)
}

// Replicas whose long names begin alike, from a file without UIDs, have claims of their own.
func TestExtendedResourceLongNames(t *testing.T) {
	o := cluster(1, 1)
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	long := "a-very-long-name-that-many-pods-of-this-deployment-have-in-common-"
	asks := func(name string) *v1.Pod {
		return builder.Pod(long+name, builder.Container("main", "example.com/gpu", "1"), func(p *v1.Pod) { p.UID = "" })
	}
	o2 := cluster(1, 2)
	o2.Classes = o.Classes
	answer := fit(t, whatif.New(o2, whatif.Options{}), asks("1"), asks("2"), asks("3"))
	assert.Len(t, answer.Plans, 2)
	assert.NotEqual(t, types.UID(""), answer.Plans[0].Pod.UID)
}

// Of slices with one name only the last one counts, also after others were added to its pool.
func TestSliceTwice(t *testing.T) {
	o := cluster(1, 1)
	second := o.Slices[0].DeepCopy()
	second.Spec.Devices[0].Name, second.Spec.Pool.ResourceSliceCount = "other", 2
	o.Slices = append(o.Slices, second)
	third := second.DeepCopy()
	third.Name, third.Spec.Devices[0].Name = "third", "third"
	s := whatif.New(o, whatif.Options{}).With(whatif.Objects{Slices: []*resourceapi.ResourceSlice{third}})
	assert.Len(t, fit(t, s, user("a", "one"), user("b", "one"), user("c", "one")).Plans, 2)
}

// A claim that was allocated with devices for which the kubelet has to leave something out needs one that can.
func TestAllocatedSkipsNodeOperations(t *testing.T) {
	o := cluster(1, 1)
	holding(&o, "h", "node-0000", "gpu-0")
	o.Claims[0].Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourceapi.SkipNodeOperation{"NodePrepareResources"}
	pod := builder.Pod("a", builder.Using(builder.Uses("h")...))
	assert.Equal(t, whatif.DoesNotFit, fit(t, whatif.New(o, whatif.Options{}), pod).Verdict)
	o.Nodes[0].Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	assert.Equal(t, whatif.Fits, fit(t, whatif.New(o, whatif.Options{}), pod).Verdict)
}
