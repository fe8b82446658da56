package commitrunner

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claim is one claim of a pod, as far as the protocol is concerned.
type Claim struct {
	// Object is the latest known state. It is shared and read-only.
	Object *resourceapi.ResourceClaim
	// Origin says who has made the claim.
	Origin Origin
	// Group is the PodGroup for which the claim gets reserved; nil stands for the pod.
	Group *resourceapi.ResourceClaimConsumerReference

	flight flight
}

// Origin says who has made a claim. What is made for a pod by its scheduler is used by nobody but that
// pod, and goes with a failed attempt.
type Origin uint8

const (
	// Given: somebody else has.
	Given Origin = iota
	// ToMake: it is only in memory, under a UID that it will not have. It may exist nevertheless, if
	// nobody knows what became of the request to create it.
	ToMake
	// Made: an attempt to schedule the pod has.
	Made
)

// flight is a plan that is in flight.
type flight struct {
	// plan is nil if nothing is.
	plan *resourceapi.AllocationResult
	// told is the UID under which Signals knows of it, "" if it does not.
	told types.UID
}

// IsAllocated reports whether the claim has an allocation.
func (c *Claim) IsAllocated() bool { return c.Object.Status.Allocation != nil }

// Plan is the allocation that is in flight, nil if there is none.
func (c *Claim) Plan() *resourceapi.AllocationResult { return c.flight.plan }

// Consumer is for whom the claim gets reserved: the pod, or the PodGroup that the claim
// belongs to.
func (c *Claim) Consumer(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
	if c.Group != nil {
		return *c.Group
	}
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// allocation is the one that was written for the claim, or may have been.
func (c *Claim) allocation() *resourceapi.AllocationResult {
	if c.IsAllocated() {
		return c.Object.Status.Allocation
	}
	return c.flight.plan
}

// signalInFlight tells what the claim is about to get.
func (r *Runner) signalInFlight(c *Claim) {
	if told := r.Signals.InFlight(c.Object, c.flight.plan, c.Origin != ToMake); told != "" {
		c.flight.told = told
	}
}

// landed ends what is in flight for a claim because the server has it.
func (r *Runner) landed(pod *v1.Pod, c *Claim) {
	r.State.Freed(r.State.Ledger.RemoveInFlight(c.Object.UID, pod.UID))
	r.Signals.Written(c.flight.told, c.Object)
	c.flight = flight{}
}

// endInFlight takes the plan out of the ledger, and wakes the pods which waited for that: no
// API event tells them.
func (r *Runner) endInFlight(pod *v1.Pod, c *Claim) {
	freed := r.State.Ledger.RemoveInFlight(c.Object.UID, pod.UID)
	r.Signals.GivenUp(c.flight.told)
	c.flight = flight{}
	r.State.GivenUp(pod, c.Object, freed)
}
