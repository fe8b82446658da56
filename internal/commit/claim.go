package commit

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// Claim is one claim of a pod, as far as the protocol is concerned.
type Claim struct {
	// Object is the latest known state. It is shared and read-only.
	Object *resourceapi.ResourceClaim
	// Origin is the creator of the claim.
	Origin Origin
	// Group is the PodGroup that the claim is reserved for, nil if it is reserved for the pod.
	Group *resourceapi.ResourceClaimConsumerReference

	flight flight
}

// Origin is the creator of a claim. A claim that the scheduler creates for a pod is used only by that
// pod, and is deleted with a failed attempt.
type Origin uint8

const (
	// Given: another client created the claim.
	Given Origin = iota
	// ToMake: the claim exists only in memory, under a UID that the created claim will not have. It may
	// exist nevertheless, if the result of the request to create it is unknown.
	ToMake
	// Made: an attempt to schedule the pod created the claim.
	Made
)

// flight is a plan that is in flight.
type flight struct {
	// plan is nil if nothing is in flight.
	plan *resourceapi.AllocationResult
	// told is the UID under which Signals knows the plan, "" if it does not know it.
	told types.UID
}

// IsAllocated reports whether the claim has an allocation.
func (c *Claim) IsAllocated() bool { return c.Object.Status.Allocation != nil }

// Plan returns the allocation that is in flight, nil if there is none.
func (c *Claim) Plan() *resourceapi.AllocationResult { return c.flight.plan }

// Consumer returns the consumer that the claim is reserved for: the pod, or the PodGroup that the claim
// belongs to.
func (c *Claim) Consumer(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
	if c.Group != nil {
		return *c.Group
	}
	return write.OfPod(pod)
}

// allocation returns the allocation that was, or may have been, written for the claim.
func (c *Claim) allocation() *resourceapi.AllocationResult {
	if c.IsAllocated() {
		return c.Object.Status.Allocation
	}
	return c.flight.plan
}

// signalInFlight announces the claim's plan.
func (r *Runner) signalInFlight(c *Claim) {
	if told := r.Signals.InFlight(c.Object, c.flight.plan, c.Origin != ToMake); told != "" {
		c.flight.told = told
	}
}

// landed ends the in-flight plan of a claim, because the server has stored it.
func (r *Runner) landed(pod *v1.Pod, c *Claim) {
	r.State.EndInFlight(pod, c.Object, true)
	r.Signals.Written(c.flight.told, c.Object)
	c.flight = flight{}
}

// endInFlight ends the in-flight plan of a claim that is not written.
func (r *Runner) endInFlight(pod *v1.Pod, c *Claim) {
	r.Signals.GivenUp(c.flight.told)
	c.flight = flight{}
	r.State.EndInFlight(pod, c.Object, false)
}
