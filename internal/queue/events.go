package queue

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// State is the known state of the cluster, all of it in memory. The object of an event is refreshed
// there before any pod is woken, so that the pod finds the event.
type State interface {
	// RefreshClaim takes over the present state of the claim in the informer's store.
	RefreshClaim(claim *resourceapi.ResourceClaim)
	// RefreshSlice and RefreshTaintRule do the same for slices and taint rules, by name.
	RefreshSlice(name string)
	RefreshTaintRule(name string)
	// Pool returns a pool with all its devices, nil if there is no such pool.
	Pool(id inventory.PoolID) *inventory.NodePool
	// PodsUsing returns the known pods that use the claim of that name.
	PodsUsing(namespace, claim string) ([]*v1.Pod, error)
	// InUse reports whether a pod that is bound uses the claim.
	InUse(claim *resourceapi.ResourceClaim) bool
	// ConsumerLimit returns the maximum number of consumers of the claim.
	ConsumerLimit(claim *resourceapi.ResourceClaim) int
	// MadeForPod returns the UID of the pod for whose extended resources the claim was made, ""
	// if it is another claim.
	MadeForPod(claim *resourceapi.ResourceClaim) types.UID
}

// Events wakes the pods of one profile of the scheduler that an event may help.
type Events struct {
	Pods  *Pods
	Waker *Waker
	Made  *ClaimsMade
	State State
	// Context limits the time for evaluating which pods an event helps, see NewContext.
	Context context.Context
}
