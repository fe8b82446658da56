package whatif_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/nodeallocatable"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/builder/stub"
)

// profile is the part of a scheduler that the in-tree plugin needs to account for devices.
type profile struct{ fwk.Handle }

type manager struct{ fwk.SharedDRAManager }

func (profile) ClientSet() kubernetes.Interface              { return fake.NewClientset() }
func (profile) ProfileName() string                          { return "in-tree" }
func (profile) SharedDRAManager() fwk.SharedDRAManager       { return manager{} }
func (manager) ResourceClaims() fwk.ResourceClaimTracker     { return stub.NoTracker{} }
func (manager) ResourceSlices() fwk.ResourceSliceLister      { return nil }
func (manager) DeviceClassResolver() fwk.DeviceClassResolver { return nil }

// TestOfNodeAsInTree compares random worlds with the in-tree plugin: for the same devices, the same pods fit on the same nodes and
// get the same status.
func TestOfNodeAsInTree(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, kube.DRANodeAllocatableResources, true)
	outcomes := make(map[bool]int)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 48))
		o := randomOfNode(r)
		accountant, err := nodeallocatable.New(t.Context(), profile{}, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
			func(result *resourceapi.DeviceRequestAllocationResult) *resourceapi.Device {
				return deviceIn(o, result)
			})
		require.NoError(t, err)
		s := whatif.New(o, whatif.Options{})
		for i := range 8 {
			pod, claims := randomUser(r, i)
			s = s.With(whatif.Objects{Claims: claims})
			var after *whatif.Snapshot
			for _, node := range s.Nodes() {
				answer, err := s.FitOn(t.Context(), pod, node.Name)
				require.NoError(t, err)
				devices, err := withoutOfNode(o, s).FitOn(t.Context(), pod, node.Name)
				require.NoError(t, err)
				if len(devices.Plans) == 0 {
					require.Empty(t, answer.Plans, "seed %d, pod %d", seed, i)
					continue
				}
				status, fits := chargeInTree(t, accountant, s, pod, node, &devices.Plans[0])
				require.Equal(t, fits, len(answer.Plans) == 1, "seed %d, pod %d, node %s", seed, i, node.Name)
				outcomes[fits]++
				if fits {
					got := answer.Plans[0].Pod.Status.NodeAllocatableResourceClaimStatuses
					require.True(t, quantity.DeepEqual(status, got), "seed %d, pod %d: %v\n%v", seed, i, status, got)
					after = answer.After
				}
			}
			if after != nil {
				s = after
			}
		}
	}
	require.Greater(t, outcomes[true], 100)
	require.Greater(t, outcomes[false], 100)
}

// deviceIn returns the device of a result.
func deviceIn(o whatif.Objects, result *resourceapi.DeviceRequestAllocationResult) *resourceapi.Device {
	for _, slice := range o.Slices {
		for i := range slice.Spec.Devices {
			if device := &slice.Spec.Devices[i]; slice.Spec.Driver == result.Driver && slice.Spec.Pool.Name == result.Pool && device.Name == result.Device {
				return device
			}
		}
	}
	return nil
}

// withoutOfNode returns a world in which devices take nothing of nodes, and nodes have enough.
func withoutOfNode(o whatif.Objects, s *whatif.Snapshot) *whatif.Snapshot {
	other := whatif.Objects{Classes: o.Classes, Claims: s.Claims(), Pods: s.Pods()}
	for _, node := range o.Nodes {
		node = node.DeepCopy()
		node.Status.Allocatable = builder.Resources("cpu", "10k", "memory", "1Ti", "hugepages-2Mi", "1Ti", "pods", "100")
		other.Nodes = append(other.Nodes, node)
	}
	for _, slice := range o.Slices {
		slice = slice.DeepCopy()
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].NodeAllocatableResources = nil
		}
		other.Slices = append(other.Slices, slice)
	}
	return whatif.New(other, whatif.Options{})
}

// chargeInTree asks the in-tree plugins whether a node has enough for a plan.
func chargeInTree(t *testing.T, accountant *nodeallocatable.Accountant, s *whatif.Snapshot, pod *v1.Pod, node *v1.Node, plan *whatif.Plan) (nodeallocatable.Status, bool) {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	for _, other := range s.Pods() {
		if other.Spec.NodeName == node.Name {
			podInfo, err := framework.NewPodInfo(other)
			require.NoError(t, err)
			info.AddPodInfo(podInfo)
		}
	}
	var claims []nodeallocatable.Claim
	var open []resourceapi.AllocationResult
	for _, claim := range s.ClaimsOf(pod) {
		one := nodeallocatable.Claim{Object: claim, Decided: claim.Status.Allocation}
		for _, planned := range plan.Claims {
			if planned.Name == claim.Name && one.Decided == nil {
				open = append(open, *planned.Status.Allocation)
			}
		}
		claims = append(claims, one)
	}
	account, status := accountant.Open(t.Context(), pod, claims)
	if !status.IsSuccess() {
		return nil, false
	}
	taken, status := account.Charge(t.Context(), framework.NewCycleState(), info, open)
	if !status.IsSuccess() {
		return nil, false
	}
	assumed := pod.DeepCopy()
	assumed.Status.NodeAllocatableResourceClaimStatuses = taken
	podInfo, err := framework.NewPodInfo(assumed)
	require.NoError(t, err)
	asked, free := podInfo.CalculateResource().Resource, info.Allocatable
	return taken, asked.GetMilliCPU() == 0 || asked.GetMilliCPU() <= free.GetMilliCPU()-info.Requested.GetMilliCPU()
}

func randomOfNode(r *rand.Rand) whatif.Objects {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	o := whatif.Objects{Classes: []*resourceapi.DeviceClass{
		builder.Class("cpus", `device.driver == "gpu.example.com" && !device.allowMultipleAllocations`),
		builder.Class("cores", `device.driver == "gpu.example.com" && device.allowMultipleAllocations`),
	}}
	for i := range 1 + r.IntN(2) {
		name := fmt.Sprint("n", i)
		one := builder.Node(name)
		one.Status.Allocatable = builder.Resources("cpu", pick("2", "4", "8"), "memory", pick("1Gi", "4Gi"), "hugepages-2Mi", pick("0", "1Gi"), "pods", "100")
		o.Nodes = append(o.Nodes, one)
		var devices []*builder.DeviceBuilder
		for d := range 2 + r.IntN(4) {
			device := builder.Device(fmt.Sprint("d", d))
			if r.IntN(3) > 0 {
				device.Modify(takes(v1.ResourceCPU, each(pick("500m", "1", "2"))))
			}
			if r.IntN(3) == 0 {
				device.Modify(takes(v1.ResourceMemory, needs(pick("", "100Mi"), pick("", "300Mi"))))
			}
			if r.IntN(6) == 0 {
				device.Modify(takes("hugepages-2Mi", each("512Mi")))
			}
			devices = append(devices, device)
		}
		cores := builder.Device("cores").Shared().Capacity("cores", pick("2", "6"))
		devices = append(devices, cores.Modify(takes(v1.ResourceCPU, per("cores", pick("1", "500m", "2")))))
		o.Slices = append(o.Slices, builder.NodeSlice(name, devices...).Obj())
	}
	return o
}

// randomUser returns a pod with a new claim and perhaps one of an earlier pod.
func randomUser(r *rand.Rand, number int) (*v1.Pod, []*resourceapi.ResourceClaim) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	name := fmt.Sprint("p", number)
	request := builder.Request("r", "cpus").Count(int64(1 + r.IntN(3)))
	switch r.IntN(4) {
	case 0:
		request = builder.Request("r", "cores").Capacity("cores", pick("1", "2", "3"))
	case 1:
		request = builder.FirstAvailable("r", builder.Request("many", "cpus").Count(3), builder.Request("one", "cpus"))
	}
	names := []string{name}
	if number > 0 && r.IntN(3) == 0 {
		names = append(names, fmt.Sprint("p", r.IntN(number)))
	}
	pod := builder.Pod(name, builder.Using(builder.Uses(names...)...), builder.InitContainer("init", "cpu", pick("0", "1")))
	for i := range 1 + r.IntN(2) {
		builder.Container(fmt.Sprint("c", i), "cpu", pick("0", "250m", "1"))(pod)
		container := &pod.Spec.Containers[i]
		container.Resources.Claims = nil
		for _, reference := range pod.Spec.ResourceClaims {
			if r.IntN(3) > 0 {
				container.Resources.Claims = append(container.Resources.Claims, v1.ResourceClaim{Name: reference.Name})
			}
		}
		if r.IntN(2) == 0 {
			container.Resources.Limits = builder.Resources("cpu", pick("1", "2"))
		}
	}
	if r.IntN(3) == 0 {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: builder.Resources("cpu", pick("2", "4")), Limits: builder.Resources("cpu", pick("2", "4"))}
		if r.IntN(2) == 0 {
			pod.Spec.Resources.Limits["hugepages-2Mi"] = builder.Resources("x", pick("256Mi", "512Mi"))["x"]
		}
	}
	return pod, []*resourceapi.ResourceClaim{builder.Claim(name, request).Obj()}
}
