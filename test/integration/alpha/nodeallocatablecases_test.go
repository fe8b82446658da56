package alpha

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// ofNodeCase is what upstream's integration tests want of devices that take resources of a node with 100 CPUs and 1000 bytes of memory.
type ofNodeCase struct {
	devices []*builder.DeviceBuilder
	// pods are created one after the other, each when the one before runs or waits as it has to.
	pods []ofNodePod
}

// ofNodePod is a pod of a case. Its containers are called main-0 and so on.
type ofNodePod struct {
	// claim is the claim that the pod uses, "" for none. The first pod that uses a claim creates it.
	claim string
	// made has the claim made from a template, and unused has no container use it.
	made, unused bool
	// asks are capacities of the claim's device.
	asks       []string
	containers int
	// requests are those of each container, and ofPod those of the pod.
	requests, ofPod []string
	// takes is what the pod's status says, see takenOf. If waits is set, the pod waits for a reason with that text.
	takes, waits string
}

const (
	cpu    = corev1.ResourceCPU
	memory = corev1.ResourceMemory
)

// stands has a device stand for an amount of a resource.
func stands(name corev1.ResourceName, amount string) func(*resourceapi.Device) {
	return takes(name, resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: amountOf(amount)}})
}

// standsForCapacity has each unit of a capacity stand for one of a resource.
func standsForCapacity(name corev1.ResourceName, capacity resourceapi.QualifiedName) func(*resourceapi.Device) {
	return takes(name, resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: &capacity, CapacityMultiplier: amountOf("1")}})
}

// needs has users of a device need some more of a resource, each pod and each of its containers.
func needs(name corev1.ResourceName, perPod, perContainer string) func(*resourceapi.Device) {
	return takes(name, resourceapi.NodeAllocatableResource{Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: amountOf(perPod), PerContainer: amountOf(perContainer)}})
}

// takes adds to what a device takes of a resource.
func takes(name corev1.ResourceName, more resourceapi.NodeAllocatableResource) func(*resourceapi.Device) {
	return func(d *resourceapi.Device) {
		if d.NodeAllocatableResources == nil {
			d.NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{}
		}
		of := d.NodeAllocatableResources[name]
		if more.Mapping != nil {
			of.Mapping = more.Mapping
		}
		if more.Overhead != nil {
			of.Overhead = more.Overhead
		}
		d.NodeAllocatableResources[name] = of
	}
}

// amountOf returns an amount, nil for "".
func amountOf(text string) *resource.Quantity {
	if text == "" {
		return nil
	}
	amount := resource.MustParse(text)
	return &amount
}

// wholeNode is a device whose shares are CPUs and memory of the node.
func wholeNode() *builder.DeviceBuilder {
	return builder.Device("node").Shared().Capacity("cpus", "100").Capacity("bytes", "1k").
		Modify(standsForCapacity(cpu, "cpus")).Modify(standsForCapacity(memory, "bytes"))
}

// ofNodeCases are our own scenarios for the subtests of upstream's DRANodeAllocatableResources, by the name of the subtest.
func ofNodeCases() map[string]ofNodeCase {
	device := func(changes ...func(*resourceapi.Device)) []*builder.DeviceBuilder {
		made := builder.Device("device")
		for _, change := range changes {
			made.Modify(change)
		}
		return []*builder.DeviceBuilder{made}
	}
	two := []*builder.DeviceBuilder{builder.Device("a").Modify(stands(cpu, "4")), builder.Device("b").Modify(stands(cpu, "4"))}
	const tooSmall = "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests"
	return map[string]ofNodeCase{
		"ConsumablePool": {[]*builder.DeviceBuilder{wholeNode()}, []ofNodePod{
			{claim: "all", containers: 2, takes: "all for main-0 main-1: cpu=100 memory=1k"},
			{containers: 1, requests: []string{"cpu", "2"}, waits: "Insufficient cpu"},
		}},
		"IndividualDevices": {[]*builder.DeviceBuilder{builder.Device("numa-0").Modify(stands(cpu, "16")), builder.Device("numa-1").Modify(stands(cpu, "16"))},
			[]ofNodePod{{claim: "numa", containers: 2, takes: "numa for main-0 main-1: cpu=16"}}},
		"ClaimSharing": {device(stands(cpu, "1"), needs(cpu, "1", "")), []ofNodePod{
			{claim: "shared", containers: 2, takes: "shared for main-0 main-1: cpu=1 cpu+1"},
			{claim: "shared", containers: 1, waits: "has a mapped device and cannot be shared across pods"},
		}},
		"SufficientPodLevelRequest": {two, []ofNodePod{
			{claim: "four", containers: 1, requests: []string{"cpu", "2"}, ofPod: []string{"cpu", "10"}, takes: "four for main-0: cpu=4"},
		}},
		"InsufficientPodLevelRequest": {two, []ofNodePod{
			{claim: "four", containers: 1, requests: []string{"cpu", "2"}, ofPod: []string{"cpu", "5"}, waits: tooSmall},
		}},
		"ExceedNodeResourceCapacityMultiplier": {device(stands(cpu, "101")), []ofNodePod{{claim: "c", containers: 1, waits: "Insufficient cpu"}}},
		"ExceedNodeCapacityWithCapacityKey": {
			[]*builder.DeviceBuilder{builder.Device("node").Shared().Capacity("cpus", "101").Modify(standsForCapacity(cpu, "cpus"))},
			[]ofNodePod{{claim: "c", containers: 1, waits: "Insufficient cpu"}},
		},
		"StandardPodFailsDueToInsufficientResourcesAfterDRAConsumption": {device(stands(cpu, "98")), []ofNodePod{
			{claim: "most", containers: 1, takes: "most for main-0: cpu=98"},
			{containers: 1, requests: []string{"cpu", "5"}, waits: "Insufficient cpu"},
		}},
		"StandardPodSucceedsAfterDRA": {device(stands(cpu, "50")), []ofNodePod{
			{claim: "half", containers: 1, takes: "half for main-0: cpu=50"},
			{containers: 1, requests: []string{"cpu", "5"}},
		}},
		"ClaimTemplateBasedAllocation": {[]*builder.DeviceBuilder{wholeNode()}, []ofNodePod{
			{claim: "made", made: true, asks: []string{"cpus", "10", "bytes", "100"}, containers: 1, takes: "made for main-0: cpu=10 memory=100"},
		}},
		"UnreferencedClaimInPod": {[]*builder.DeviceBuilder{wholeNode()}, []ofNodePod{
			{claim: "unused", unused: true, containers: 1, takes: "unused for : cpu=100 memory=1k"},
		}},
		"OverheadMappingsPerPod": {device(needs(memory, "100", "")), []ofNodePod{
			{claim: "c", containers: 2, takes: "c for main-0 main-1: memory+100"},
		}},
		"OverheadMappingsPerContainer": {device(needs(memory, "", "50")), []ofNodePod{
			{claim: "c", containers: 2, takes: "c for main-0 main-1: memory+50 each"},
		}},
		"OverheadMappingsBoth": {device(needs(memory, "100", "50")), []ofNodePod{
			{claim: "c", containers: 2, takes: "c for main-0 main-1: memory+100 memory+50 each"},
		}},
		"OverheadMappingsInsufficient": {device(needs(memory, "2000", "")), []ofNodePod{{claim: "c", containers: 1, waits: "Insufficient memory"}}},
		"ClaimSharingOverhead": {device(needs(memory, "100", "")), []ofNodePod{
			{claim: "shared", containers: 1, takes: "shared for main-0: memory+100"},
			{claim: "shared", containers: 1, takes: "shared for main-0: memory+100"},
		}},
	}
}

// Each subtest of upstream's integration tests has a scenario here.
func TestNodeAllocatableCases(t *testing.T) {
	t.Parallel()
	cases := ofNodeCases()
	require.Len(t, cases, 16)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(newSpace(t, strings.ToLower(name[:min(len(name), 20)])+"-case", 1))
		})
	}
}

func (c ofNodeCase) run(s *space) {
	s.leave("cpu", "100", "memory", "1k")
	s.devicesOfNode(c.devices...)
	made := map[string]bool{}
	for i, p := range c.pods {
		name := fmt.Sprint("pod-", i)
		if p.claim != "" && !made[p.claim] {
			s.createClaim(p)
			made[p.claim] = true
		}
		s.Create(p.pod(s, name))
		if p.waits != "" {
			s.MayWait("the node has too little left", name)
			s.Waiting(name, p.waits)
			continue
		}
		s.Running(name)
		require.Equal(s.T, p.takes, takenOf(s.LivePod(name)))
	}
}

// createClaim creates the claim of a pod, or the template for it.
func (s *space) createClaim(p ofNodePod) {
	s.T.Helper()
	request := s.Want(1)
	for i := 0; i < len(p.asks); i += 2 {
		request.Capacity(p.asks[i], p.asks[i+1])
	}
	if claim := builder.Claim(p.claim, request); p.made {
		s.Create(claim.Template())
	} else {
		s.Create(claim.Obj())
	}
}

// pod returns the pod.
func (p ofNodePod) pod(s *space, name string) *corev1.Pod {
	pod := s.Pod(name, nil)
	container := pod.Spec.Containers[0]
	container.Resources.Requests = builder.Resources(p.requests...)
	pod.Spec.Containers = nil
	for i := range p.containers {
		container.Name = fmt.Sprint("main-", i)
		pod.Spec.Containers = append(pod.Spec.Containers, *container.DeepCopy())
	}
	if len(p.ofPod) > 0 {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: builder.Resources(p.ofPod...)}
	}
	var claims []corev1.PodResourceClaim
	switch {
	case p.made:
		claims = builder.FromTemplate(p.claim)
	case p.claim != "":
		claims = builder.Uses(p.claim)
	}
	if p.unused {
		pod.Spec.ResourceClaims = claims
	} else {
		builder.Using(claims...)(pod)
	}
	return pod
}

// takenOf says what the status of a pod says of its devices: which claim, for which containers, and of each resource for how much they
// stand (=), and how much more the pod, or each container, needs (+).
func takenOf(pod *corev1.Pod) string {
	var claims []string
	for _, claim := range pod.Status.NodeAllocatableResourceClaimStatuses {
		text := claimIn(pod, claim.ResourceClaimName) + " for " + strings.Join(claim.Containers, " ") + ":"
		for _, mapped := range claim.Mapping {
			text += fmt.Sprintf(" %s=%s", mapped.Name, mapped.Quantity)
		}
		for _, more := range claim.Overhead {
			if more.PerPod != nil {
				text += fmt.Sprintf(" %s+%s", more.Name, more.PerPod)
			}
			if more.PerContainer != nil {
				text += fmt.Sprintf(" %s+%s each", more.Name, more.PerContainer)
			}
		}
		claims = append(claims, text)
	}
	return strings.Join(claims, "; ")
}

// claimIn returns the pod's name for a claim.
func claimIn(pod *corev1.Pod, claim string) string {
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil && *status.ResourceClaimName == claim {
			return status.Name
		}
	}
	return claim
}
