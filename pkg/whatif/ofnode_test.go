package whatif_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// takes lets a device take a resource of its node.
func takes(name v1.ResourceName, how resourceapi.NodeAllocatableResource) func(*resourceapi.Device) {
	return func(device *resourceapi.Device) {
		if device.NodeAllocatableResources == nil {
			device.NodeAllocatableResources = make(map[v1.ResourceName]resourceapi.NodeAllocatableResource)
		}
		device.NodeAllocatableResources[name] = how
	}
}

// each stands for an amount for each device, and per for an amount for each unit of a capacity.
func each(amount string) resourceapi.NodeAllocatableResource {
	return resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr.To(resource.MustParse(amount))}}
}

func per(capacity resourceapi.QualifiedName, amount string) resourceapi.NodeAllocatableResource {
	return resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{
		CapacityKey: &capacity, CapacityMultiplier: ptr.To(resource.MustParse(amount))}}
}

// needs is an overhead; "" is none.
func needs(perPod, perContainer string) resourceapi.NodeAllocatableResource {
	overhead := &resourceapi.NodeAllocatableOverhead{}
	if perPod != "" {
		overhead.PerPod = ptr.To(resource.MustParse(perPod))
	}
	if perContainer != "" {
		overhead.PerContainer = ptr.To(resource.MustParse(perContainer))
	}
	return resourceapi.NodeAllocatableResource{Overhead: overhead}
}

// ofCPU is a cluster of nodes with eight CPUs each, of which three devices stand for two each.
func ofCPU(nodes int) whatif.Objects {
	o := cluster(nodes, 0)
	for i := range o.Slices {
		o.Slices[i].Spec.Devices = nil
		for _, device := range builder.NumberedDevices("cpus", 3) {
			slice := builder.NodeSlice("x", device.Modify(takes(v1.ResourceCPU, each("2")))).Obj()
			o.Slices[i].Spec.Devices = append(o.Slices[i].Spec.Devices, slice.Spec.Devices...)
		}
	}
	return o
}

// asks is an edit of a pod: a container that uses the claim and asks for CPU besides.
func asks(cpu string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		builder.Container("main", "cpu", cpu)(pod)
		pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: pod.Spec.ResourceClaims[0].Name}}
	}
}

// The explanation says what devices take of the node, and what it has left.
func TestExplainOfNode(t *testing.T) {
	o := ofCPU(2)
	o.Nodes[1].Status.Allocatable["cpu"] = resource.MustParse("6")
	s := whatif.New(o, whatif.Options{})
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"two devices": {user("a", "two", asks("5")), "too little cpu is left: 9 asked (4 by device gpu.example.com/node-0000/cpus-0 and 1 more), 8 of 8 free on node-0000, which has most"},
		"one device":  {user("a", "one", asks("7")), "too little cpu is left: 9 asked (2 by device gpu.example.com/node-0000/cpus-0), 8 of 8 free on node-0000, which has most"},
		"no device":   {builder.Pod("a", builder.Container("main", "cpu", "9")), "too little cpu is left: 9 asked, 8 of 8 free on node-0000, which has most"},
		"other resource": {user("a", "one", builder.Container("main", "memory", "64Gi")),
			"too little memory is left: 64Gi asked, 32Gi of 32Gi free on node-0000, which has most"},
		"whole pod": {user("a", "two", asks("1"), func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: builder.Resources("cpu", "4")}
		}), "the pod's request for cpu (spec.resources) does not cover its containers and devices, which take 5"},
		"limit of the whole pod": {user("a", "two", asks("0"), func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = builder.Resources("cpu", "1")
			p.Spec.Resources = &v1.ResourceRequirements{Limits: builder.Resources("cpu", "4")}
		}), "the pod's limit for cpu (spec.resources) does not cover container main and its devices, which may take 5"},
		"whole pod that is too large": {user("a", "two", asks("1"), func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: builder.Resources("cpu", "9")}
		}), "too little cpu is left: 9 asked, 8 of 8 free on node-0000, which has most"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := s.Explain(t.Context(), test.pod)
			require.NoError(t, err)
			require.Len(t, e.Groups, 1)
			assert.Equal(t, test.want, e.Groups[0].Reason)
			assert.Equal(t, whatif.Resources, e.Groups[0].Kind)
			assert.Equal(t, whatif.DoesNotFit, fit(t, s, test.pod).Verdict)
		})
	}
	e, err := s.Explain(t.Context(), user("a", "two", asks("4")))
	require.NoError(t, err)
	assert.Equal(t, []string{"node-0000"}, e.Fits)
	assert.Equal(t, "too little cpu is left: 8 asked (4 by device gpu.example.com/node-0001/cpus-0 and 1 more), 6 of 6 free", e.Groups[0].Reason)
}

// Each pod finds what the devices of the pods before it leave, also if those are removed again or read from a dump.
func TestFitOfNode(t *testing.T) {
	s := whatif.New(ofCPU(1), whatif.Options{})
	answer := fit(t, s, user("a", "one", asks("1")), user("b", "one", asks("1")), user("c", "one", asks("1")))
	require.Len(t, answer.Plans, 2, "the third device is free, but only two CPUs are")
	status := answer.Plans[0].Pod.Status.NodeAllocatableResourceClaimStatuses
	require.Len(t, status, 1)
	assert.Equal(t, []string{"main"}, status[0].Containers)
	assert.Equal(t, "2", status[0].Mapping[0].Quantity.String())

	plain := func(cpu string) *v1.Pod { return builder.Pod("plain", builder.Container("main", "cpu", cpu)) }
	assert.Equal(t, whatif.Fits, fit(t, answer.After, plain("2")).Verdict)
	assert.Equal(t, whatif.DoesNotFit, fit(t, answer.After, plain("3")).Verdict, "a pod without devices cannot have their CPUs")
	without, err := answer.After.Without(whatif.Removal{Pods: []string{whatif.Key(answer.Plans[0].Pod)}})
	require.NoError(t, err)
	assert.Equal(t, whatif.Fits, fit(t, without, plain("5")).Verdict)
	assert.Equal(t, whatif.DoesNotFit, fit(t, without, plain("6")).Verdict)

	o := ofCPU(1)
	o.Pods, o.Claims = answer.After.Pods(), answer.After.Claims()
	var file bytes.Buffer
	require.NoError(t, whatif.WriteDump(&file, o))
	read, err := whatif.ReadDump(&file)
	require.NoError(t, err)
	assert.Equal(t, whatif.DoesNotFit, fit(t, whatif.New(read, whatif.Options{}), plain("3")).Verdict)

	left := user("d", "one", asks("1"))
	left.Status.NodeAllocatableResourceClaimStatuses = status
	left.Status.NodeAllocatableResourceClaimStatuses[0].Mapping[0].Quantity = ptr.To(resource.MustParse("100"))
	assert.Equal(t, whatif.Fits, fit(t, s, left).Verdict, "what an earlier attempt has left does not count")
}

// Pods of lower priority are victims if the CPUs that their devices take are missing.
func TestVictimsOfNode(t *testing.T) {
	s := fit(t, whatif.New(ofCPU(1), whatif.Options{}), user("low", "two", asks("1"))).After
	pod := builder.Pod("high", builder.Container("main", "cpu", "4"), func(p *v1.Pod) { p.Spec.Priority = ptr.To[int32](1) })
	victims, possible, err := s.PossibleVictims(t.Context(), pod, "node-0000")
	require.NoError(t, err)
	require.True(t, possible)
	require.Len(t, victims, 1)
}

// A claim is for one pod if a device stands for resources of the node, and for several if it only needs some.
func TestSharedOfNode(t *testing.T) {
	for _, test := range []struct {
		how     resourceapi.NodeAllocatableResource
		want    whatif.Verdict
		problem string
	}{
		{each("1"), whatif.DoesNotFit, "claim h has a device that stands for resources of its node, so it is for one pod only"},
		{needs("1", ""), whatif.Fits, ""},
		{needs("9", ""), whatif.DoesNotFit, ""},
	} {
		o := cluster(1, 0)
		o.Slices[0] = builder.NodeSlice("node-0000", builder.Device("cpu").Modify(takes(v1.ResourceCPU, test.how))).Obj()
		holding(&o, "h", "node-0000", "cpu")
		s := whatif.New(o, whatif.Options{})
		pod := builder.Pod("a", builder.Using(builder.Uses("h")...))
		assert.Equal(t, test.want, fit(t, s, pod).Verdict)
		e, err := s.Explain(t.Context(), pod)
		require.NoError(t, err)
		assert.Contains(t, e.Problem, test.problem)
		assert.Equal(t, test.problem == "", e.Problem == "")
	}
}

// Devices for extended resources cannot take resources of the node, because nothing would account for them.
func TestExtendedOfNode(t *testing.T) {
	o := ofCPU(1)
	o.Classes[0].Spec.ExtendedResourceName = ptr.To("example.com/cpus")
	s := whatif.New(o, whatif.Options{})
	pod := builder.Pod("a", builder.Container("main", "example.com/cpus", "1"))
	require.Equal(t, whatif.DoesNotFit, fit(t, s, pod).Verdict)
	e, err := s.Explain(t.Context(), pod)
	require.NoError(t, err)
	assert.Contains(t, e.Groups[0].Reason, "the devices for the pod's extended resources stand for or need resources of the node")
}

// Drivers publish what they like, and withdraw it. The answer is no then, with a reason and at once.
func TestOddOfNode(t *testing.T) {
	withdrawn := func(o *whatif.Objects) {
		holding(o, "h", "node-0000", "cpu", "gone")
		o.Pods = nil
		o.Claims[0].Status.ReservedFor = nil
	}
	for name, test := range map[string]struct {
		how  resourceapi.NodeAllocatableResource
		edit func(*whatif.Objects)
		want string
	}{
		"without end":      {each("1e999999999"), nil, "too little cpu is left"},
		"nothing consumed": {per("cores", "1"), nil, "claim a-claim: device gpu.example.com/node-0000/cpu: it stands for cpu by its capacity cores, but the allocation does not say how much of that it consumes"},
		"withdrawn":        {each("1"), withdrawn, "claim h: device gpu.example.com/node-0000/gone is not published any more, so it is not known what it takes of the node"},
		"everywhere": {each("9"), func(o *whatif.Objects) {
			o.Slices[0] = builder.Slice("node-0000").OnAllNodes().Modify(func(s *resourceapi.ResourceSlice) { s.Spec.Devices = o.Slices[0].Spec.Devices }).Obj()
		}, "too little cpu is left: 9 asked (9 by device gpu.example.com/node-0000/cpu), 8 of 8 free"},
	} {
		t.Run(name, func(t *testing.T) {
			o := cluster(1, 0)
			o.Slices[0] = builder.NodeSlice("node-0000", builder.Device("cpu").Modify(takes(v1.ResourceCPU, test.how))).Obj()
			pod := user("a", "one", func(p *v1.Pod) { p.Spec.ResourceClaims[0].Name = "claim" })
			if test.edit != nil {
				test.edit(&o)
			}
			if len(o.Claims) > 0 {
				pod = builder.Pod("a", builder.Using(builder.Uses("h")...))
			}
			s := whatif.New(o, whatif.Options{})
			assert.Equal(t, whatif.DoesNotFit, fit(t, s, pod).Verdict)
			e, err := s.Explain(t.Context(), pod)
			require.NoError(t, err)
			require.Len(t, e.Groups, 1)
			assert.Contains(t, e.Groups[0].Reason, test.want)
		})
	}
}
