package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// onePod is a snapshot with pod "a" of app "app" that has the named devices.
func onePod(devices ...string) *Snapshot {
	return snapshotOf(boundPod("app", "a", "c"), allocatedClaim("c", devices, "a"))
}

// twoPods is a snapshot with pods "a" and "b" on nodes "n" and "m", each with a
// claim for one device.
func twoPods(first, second string) *Snapshot {
	onM := func(p *corev1.Pod) { p.Spec.NodeName = "m" }
	return snapshotOf(
		boundPod("app", "a", "c"), allocatedClaim("c", []string{first}, "a"),
		change(boundPod("app", "b", "d"), onM), allocatedClaim("d", []string{second}, "b"))
}

// withResult changes the first allocation result of the first claim.
func withResult(s *Snapshot, apply func(*resourceapi.DeviceRequestAllocationResult)) *Snapshot {
	apply(&s.Claims[0].Status.Allocation.Devices.Results[0])
	return s
}

func withAllocation(s *Snapshot, apply func(*resourceapi.AllocationResult)) *Snapshot {
	apply(s.Claims[0].Status.Allocation)
	return s
}

func forNodes(key string, values ...string) func(*resourceapi.AllocationResult) {
	return func(a *resourceapi.AllocationResult) {
		a.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}}
	}
}

func configured(source resourceapi.AllocationConfigSource, requests ...string) func(*resourceapi.AllocationResult) {
	return func(a *resourceapi.AllocationResult) {
		a.Devices.Config = append(a.Devices.Config, resourceapi.DeviceAllocationConfiguration{
			Source: source, Requests: requests,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: "d", Parameters: runtime.RawExtension{Raw: []byte(`{}`)},
			}},
		})
	}
}

// taking is a pod whose status says that each of its claims takes an amount of a resource.
func taking(name corev1.ResourceName, amounts ...string) *corev1.Pod {
	pod := boundPod("app", "a")
	for _, amount := range amounts {
		pod.Status.NodeAllocatableResourceClaimStatuses = append(pod.Status.NodeAllocatableResourceClaimStatuses, corev1.NodeAllocatableResourceClaimStatus{
			Mapping: []corev1.NodeAllocatableMappedResources{{Name: name, Quantity: ptr.To(resource.MustParse(amount))}},
		})
	}
	return pod
}

func TestChecks(t *testing.T) {
	t.Parallel()
	secondBoard := func(d *resourceapi.Device) bool { return *d.Attributes["board"].IntValue == 1 }
	sharedPair := snapshotOf(boundPod("app", "a", "c"), boundPod("app", "b", "c"), allocatedClaim("c", []string{"gpu-0"}, "a", "b"))
	for name, tc := range map[string]struct {
		check Check
		holds *Snapshot
		fails *Snapshot
		want  string
	}{
		"DevicesEach":    {DevicesEach(2), onePod("gpu-0", "gpu-1"), onePod("gpu-0"), "pod a has 1 devices, want 2"},
		"NoDeviceTwice":  {NoDeviceTwice(), twoPods("gpu-0", "gpu-1"), twoPods("gpu-0", "gpu-0"), "which another claim of this app holds"},
		"one claim only": {NoDeviceTwice(), sharedPair, twoPods("gpu-3", "gpu-3"), "gpu-3"},
		"SameDevices":    {SameDevices(), sharedPair, twoPods("gpu-0", "gpu-1"), "pod b has the devices"},
		"FromRequest": {FromRequest("gpu/large"),
			withResult(onePod("gpu-0"), func(r *resourceapi.DeviceRequestAllocationResult) { r.Request = "gpu/large" }),
			onePod("gpu-0"), `for request "gpu", want "gpu/large"`},
		"ByRequest":             {ByRequest(map[string]int{"gpu": 2}), onePod("gpu-0", "gpu-1"), onePod("gpu-0"), "map[gpu:1] devices by request, want map[gpu:2]"},
		"DeviceNames":           {DeviceNames("gpu-1", "gpu-0"), twoPods("gpu-0", "gpu-1"), twoPods("gpu-0", "gpu-2"), `want ["gpu-0" "gpu-1"]`},
		"EveryDevice":           {EveryDevice("on board 1", secondBoard), onePod("gpu-2", "gpu-3"), onePod("gpu-2", "gpu-4"), "which is not on board 1"},
		"EveryDevice published": {EveryDevice("on board 1", secondBoard), onePod("gpu-2"), onePod("gpu-99"), "is in no slice"},
		"OneValueEach":          {OneValueEach("board"), onePod("gpu-2", "gpu-3"), onePod("gpu-2", "gpu-4"), `values ["1" "2"]`},
		"DistinctValuesEach":    {DistinctValuesEach("board"), onePod("gpu-2", "gpu-4"), onePod("gpu-2", "gpu-3"), `values ["1" "1"]`},
		"OnNodes":               {OnNodes("n", "m"), twoPods("gpu-0", "gpu-1"), withNode(onePod("gpu-0"), "x"), "runs on x"},
		"DifferentNodes":        {DifferentNodes(), twoPods("gpu-0", "gpu-1"), sharedPair, "runs on n like another pod"},
		"Running":               {Running(), onePod("gpu-0"), withPhase(onePod("gpu-0"), corev1.PodPending), "is Pending"},
		"Succeeded":             {Succeeded(), withPhase(onePod("gpu-0"), corev1.PodSucceeded), onePod("gpu-0"), "is Running"},
		"ReservedFor":           {ReservedFor(2), sharedPair, onePod("gpu-0"), "is reserved for 1 consumers, want 2"},
		"TakesOfNode": {TakesOfNode("cpu", "3"),
			snapshotOf(taking("cpu", "1", "2")), snapshotOf(taking("cpu", "3", "2")), "pod a takes 5 cpu of its node by its devices, want 3"},
		"TakesOfNode, another resource": {TakesOfNode("cpu", "3"),
			snapshotOf(taking("cpu", "3")), snapshotOf(taking("memory", "3")), "takes 0 cpu"},
		"Consumes": {Consumes("bandwidth", "50"),
			withResult(onePod("nic-0"), share("50")), withResult(onePod("nic-0"), share("100")), "consumes 100 of bandwidth"},
		"Consumes, no share": {Consumes("bandwidth", "50"),
			withResult(onePod("nic-0"), share("50")), onePod("nic-0"), "want 50 of a share of its own"},
		"AdminAccess": {AdminAccess(true),
			withResult(onePod("gpu-0"), func(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) }),
			onePod("gpu-0"), "has admin access false"},
		"Tolerates": {Tolerates("key"),
			withResult(onePod("gpu-0"), func(r *resourceapi.DeviceRequestAllocationResult) {
				r.Tolerations = []resourceapi.DeviceToleration{builder.Toleration("key", resourceapi.DeviceTaintEffectNoSchedule)}
			}),
			onePod("gpu-0"), "without the toleration of key"},
		"ReachableFrom": {ReachableFrom("rack", "a"),
			withAllocation(onePod("gpu-0"), forNodes("rack", "a")),
			withAllocation(onePod("gpu-0"), forNodes("rack", "b")), "want rack in [a]"},
		"ReachableFrom some": {ReachableFrom("rack", "a"),
			withAllocation(onePod("gpu-0"), forNodes("rack", "a")), onePod("gpu-0"), "allocated for all nodes"},
		"ReachableFromAllNodes": {ReachableFromAllNodes(), onePod("gpu-0"),
			withAllocation(onePod("gpu-0"), forNodes("rack", "a")), "want all nodes"},
		"Configs": {Configs(ConfigEntry{Source: resourceapi.AllocationConfigSourceClass, Requests: []string{"gpu"}, Driver: "d", Parameters: "{}"}),
			withAllocation(onePod("gpu-0"), configured(resourceapi.AllocationConfigSourceClass, "gpu")),
			withAllocation(onePod("gpu-0"), configured(resourceapi.AllocationConfigSourceClaim, "gpu")), `FromClaim [gpu] d {}`},
		"Configs all": {Configs(),
			onePod("gpu-0"), withAllocation(onePod("gpu-0"), configured(resourceapi.AllocationConfigSourceClass)), "FromClass [] d {}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, tc.check(tc.holds.appPods("app")))
			require.ErrorContains(t, tc.check(tc.fails.appPods("app")), tc.want)
		})
	}
}

func withNode(s *Snapshot, node string) *Snapshot {
	s.Pods[0].Spec.NodeName = node
	return s
}

func withPhase(s *Snapshot, phase corev1.PodPhase) *Snapshot {
	s.Pods[0].Status.Phase = phase
	return s
}

func TestDeviceOfNewestGeneration(t *testing.T) {
	t.Parallel()
	s := onePod("gpu-0")
	newer := s.Slices[0].DeepCopy()
	newer.Spec.Pool.Generation = 2
	newer.Spec.Devices[0].Attributes["model"] = resourceapi.DeviceAttribute{StringValue: ptr.To("NEW")}
	for _, order := range [][]*resourceapi.ResourceSlice{{s.Slices[0], newer}, {newer, s.Slices[0]}} {
		both := &Snapshot{Slices: order}
		device := both.device(s.Claims[0].Status.Allocation.Devices.Results[0])
		require.Equal(t, "NEW", *device.Attributes["model"].StringValue)
	}
}

// share makes a result a share that consumes an amount of bandwidth.
func share(amount string) func(*resourceapi.DeviceRequestAllocationResult) {
	return func(r *resourceapi.DeviceRequestAllocationResult) {
		r.ShareID = ptr.To(types.UID("share"))
		r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(amount)}
	}
}
