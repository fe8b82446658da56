package write

import (
	"errors"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The reasons why a claim cannot be written as asked. The errors returned by the
// methods of Writer wrap at most one of them; compare with errors.Is.
var (
	// ErrDeleted: the claim is gone, or it is being deleted and thus must not
	// get new consumers.
	ErrDeleted = errors.New("claim deleted")

	// ErrReplaced: a claim of that name exists, but it is another object (with a different UID)
	// than the one that the caller looked at.
	ErrReplaced = errors.New("claim replaced")

	// ErrAllocatedElsewhere: the claim has an allocation other than the one that the caller decided
	// on. Another write came first.
	ErrAllocatedElsewhere = errors.New("claim allocated elsewhere")

	// ErrDeallocated: the allocation that the caller relied on is gone, or was replaced by another.
	ErrDeallocated = errors.New("claim deallocated")

	// ErrConsumerLimit: status.reservedFor already holds the maximum number of
	// consumers, 256 in v1; see Options.Limits.
	ErrConsumerLimit = errors.New("claim has the maximum number of consumers")

	// ErrConsumerGone: the server does not have the PodGroup for which the claim was reserved. The controller of claims takes
	// the claim from the pods of such a group, even if they are on nodes.
	ErrConsumerGone = errors.New("consumer of claim is gone")

	// ErrInUse: the claim is reserved for another consumer and thus must not be deallocated.
	ErrInUse = errors.New("claim in use")

	// ErrNotStored: the server has accepted an allocation, but has left out parts of it.
	ErrNotStored = errors.New("allocation not stored completely")

	// ErrOutcomeUnknown: attempts ended (too many failures, or the context was done) while the
	// outcome of the last write was unknown: it may have taken effect, or may do so later. The next
	// call for the same claim finds out.
	ErrOutcomeUnknown = errors.New("outcome of write unknown")
)

// refusal describes a precondition that does not hold: the state that was found instead, and its
// consequence for the caller.
type refusal struct {
	reason error  // one of the Err variables
	found  string // "found ..."
	next   string // what happens next, or what to do
}

// asError turns the refusal into the error for the caller of the operation.
func (r refusal) asError(op *operation) error {
	return fmt.Errorf("claim %s: %w: asked to %s; found %s; %s", op.key(), r.reason, op.asked, r.found, r.next)
}

// unlessUsed returns a refusal if the claim is reserved for other consumers than the given ones, otherwise nil.
func unlessUsed(claim *resourceapi.ResourceClaim, next string, allowed ...types.UID) *refusal {
	others := otherConsumers(claim, allowed...)
	if len(others) == 0 {
		return nil
	}
	return &refusal{reason: ErrInUse, found: fmt.Sprintf("that it is reserved for %s", describeConsumers(others)), next: next}
}

// describeConsumer returns "pods/web-0 (UID 1234)".
func describeConsumer(consumer resourceapi.ResourceClaimConsumerReference) string {
	resource := consumer.Resource
	if consumer.APIGroup != "" {
		resource += "." + consumer.APIGroup
	}
	return fmt.Sprintf("%s/%s (UID %s)", resource, consumer.Name, consumer.UID)
}

// maxDescribed limits how many devices or consumers an error text lists.
const maxDescribed = 4

// describeAllocation names the first devices of an allocation.
func describeAllocation(allocation *resourceapi.AllocationResult) string {
	if allocation == nil {
		return "no allocation"
	}
	var devices []string
	for _, result := range allocation.Devices.Results {
		devices = append(devices, result.Driver+"/"+result.Pool+"/"+result.Device)
	}
	return fmt.Sprintf("an allocation of %s", listSome(devices))
}

// describeConsumers names the first consumers that a claim is reserved for.
func describeConsumers(consumers []resourceapi.ResourceClaimConsumerReference) string {
	var names []string
	for _, consumer := range consumers {
		names = append(names, describeConsumer(consumer))
	}
	return listSome(names)
}

func listSome(items []string) string {
	switch {
	case len(items) == 0:
		return "nothing"
	case len(items) > maxDescribed:
		return fmt.Sprintf("%s and %d more", strings.Join(items[:maxDescribed], " and "), len(items)-maxDescribed)
	default:
		return strings.Join(items, " and ")
	}
}
