package write

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimBuilder changes a claim under construction.
type claimBuilder func(*resourceapi.ResourceClaim)

// newClaim returns a claim without consumers, in version 10.
func newClaim(builders ...claimBuilder) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "train", Name: "gpus", UID: "claim-uid", ResourceVersion: "10"},
	}
	for _, build := range builders {
		build(claim)
	}
	return claim
}

func withFinalizers(finalizers ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) { claim.Finalizers = finalizers }
}

// protected adds the finalizer of allocated claims.
func protected(claim *resourceapi.ResourceClaim) {
	claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
}

// allocated makes the claim what it is after an allocation.
func allocated(devices ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = newAllocation(devices...)
		protected(claim)
	}
}

func reservedFor(pods ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		for _, pod := range pods {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(pod))
		}
	}
}

func reservedForMany(n int) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		for i := range n {
			reservedFor(fmt.Sprintf("many-%d", i))(claim)
		}
	}
}

func withDeviceStatus(devices ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		for _, device := range devices {
			claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{Driver: "gpu.example.com", Pool: "node-a", Device: device})
		}
	}
}

func beingDeleted(claim *resourceapi.ResourceClaim) {
	deleted := metav1.NewTime(now)
	claim.DeletionTimestamp = &deleted
}

func withoutAllocation(claim *resourceapi.ResourceClaim) {
	claim.Status = resourceapi.ResourceClaimStatus{}
}

func withUID(uid types.UID) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) { claim.UID = uid }
}

func withVersion(resourceVersion string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) { claim.ResourceVersion = resourceVersion }
}

func stamped(claim *resourceapi.ResourceClaim) {
	timestamp := metav1.NewTime(now)
	claim.Status.Allocation.AllocationTimestamp = &timestamp
}

// newAllocation returns an allocation without timestamp.
func newAllocation(devices ...string) *resourceapi.AllocationResult {
	allocation := &resourceapi.AllocationResult{}
	for _, device := range devices {
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: "gpu.example.com", Pool: "node-a", Device: device,
		})
	}
	return allocation
}

// consumer returns the reference to the pod of that name; its UID is derived
// from the name.
func consumer(pod string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod + "-uid")}
}

// neverBound is final evidence about a consumer, the zero value for none.
func neverBound(consumer types.UID) Unbound { return Unbound{consumer: consumer} }

// existing returns the PodGroup that podGroup refers to.
func existing(name string) *schedulingapi.PodGroup {
	return &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "train", Name: name, UID: podGroup(name).UID}}
}

// podGroup is consumer for a pod group.
func podGroup(name string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: name, UID: types.UID(name + "-uid")}
}

// changed returns a fault.before that applies the builders.
func changed(builders ...claimBuilder) func(*resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	return func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
		for _, build := range builders {
			build(claim)
		}
		return claim
	}
}

// removed is a fault.before that deletes the claim.
func removed(*resourceapi.ResourceClaim) *resourceapi.ResourceClaim { return nil }
