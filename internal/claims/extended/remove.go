package extended

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// A Remover removes what attempts left behind. It is safe for concurrent use.
type Remover struct {
	// Claims finds the claims of pods, and Stored those that were made for extended resources.
	Claims *podclaims.Claims
	Stored cache.Indexer
	Writer *write.Writer
	// Controllers handles claims that controllers of drivers allocate (classicdra.Mode).
	Controllers Controllers
	// Attempts are the attempts to schedule the pods.
	Attempts Attempts
}

// Attempts are attempts to schedule pods.
type Attempts interface {
	write.Observer
	// Keeps reports whether a claim of a pod must not be changed yet.
	Keeps(*resourceapi.ResourceClaim, *v1.Pod) bool
}

// Why RemoveMade deletes claims.
const (
	FitsNowhere = "fits no node with it"
	NoClass     = "requests none that a device class stands for"
)

// Divider separates claims that controllers of drivers allocate.
type Divider interface {
	// Divide returns the other claims of a pod. usable reports whether the claims that controllers allocate can be used on
	// a node, or may be.
	Divide(pod *v1.Pod, claims []*resourceapi.ResourceClaim) (ours []*resourceapi.ResourceClaim, usable func(*v1.Node) bool, err error)
}

// Controllers are controllers of drivers that allocate claims.
type Controllers interface {
	Divider
	// FreeOne asks a driver to deallocate one of the claims without other consumers. It returns its name, "" if there is none.
	FreeOne(pod *v1.Pod, claims []*resourceapi.ResourceClaim) (string, error)
}

// RemoveMade deletes claims made for a pod's extended resources, unless the pod is bound. It returns whether it deleted
// any. why is for the event about the claim: FitsNowhere, or NoClass.
func (r *Remover) RemoveMade(ctx context.Context, pod *v1.Pod, claims []*resourceapi.ResourceClaim, why string) (bool, error) {
	if len(claims) == 0 {
		return false, nil
	}
	ctx = write.Because(ctx, write.Cause{Pod: pod, Why: "because pod " + pod.Name + ", for whose extended resources it was made, " + why})
	for _, claim := range claims {
		if r.Attempts.Keeps(claim, pod) {
			return false, nil
		}
		unbound, err := r.Writer.Ask(ctx, claim, write.OfPod(pod))
		if err != nil {
			return false, write.UnlessBound(err)
		}
		left, err := r.Writer.Remove(ctx, claim, unbound)
		if err != nil {
			return false, write.UnlessBound(fmt.Errorf("delete claim %s, which an earlier attempt made for the pod's extended resources: %w", klog.KObj(claim), err))
		}
		r.Attempts.Observe(ctx, claim, left)
	}
	return true, nil
}

// RemoveStale does the same as RemoveMade for the claims that the pod cannot use on any node.
func (r *Remover) RemoveStale(ctx context.Context, pod *v1.Pod) (bool, error) {
	made, err := Made(pod, r.Stored, r.Claims.Claim)
	if err != nil {
		return false, err
	}
	return r.RemoveMade(ctx, pod, NewDemand(pod, nil, made).StaleClaims(), FitsNowhere)
}

// Release removes what attempts left for a pod of a gang that does not fit with it, unless the pod is bound: it releases
// claims that only waiting pods of the gang use. It returns the names of the removed and released claims.
func (r *Remover) Release(ctx context.Context, pod *v1.Pod, waiting func() map[types.UID]*v1.Pod) (released []string, err error) {
	claims, err := r.Claims.Of(pod)
	if err != nil {
		return nil, nil // Without its claims the pod cannot be judged.
	}
	ours, _, err := r.Controllers.Divide(pod, claims)
	if err != nil {
		return nil, err
	}
	ours = slices.DeleteFunc(slices.Clone(ours), func(claim *resourceapi.ResourceClaim) bool {
		return claim.Status.Allocation == nil || !isReservedFor(claim, waiting()) || r.Attempts.Keeps(claim, pod)
	})
	for _, claim := range ours {
		ctx := write.Because(ctx, write.Cause{Pod: pod, Why: "because its group does not fit with it"})
		unbound, err := r.Writer.Ask(ctx, claim, write.OfPod(pod))
		if err != nil {
			return released, write.UnlessBound(err)
		}
		returned, err := r.Writer.Release(ctx, claim, unbound)
		if err != nil {
			return released, write.UnlessBound(fmt.Errorf("release claim %s of a group that does not fit: %w", klog.KObj(claim), err))
		}
		r.Attempts.Observe(ctx, claim, returned)
		released = append(released, klog.KObj(claim).String())
	}
	if name, err := r.Controllers.FreeOne(pod, claims); err != nil {
		return released, err
	} else if name != "" {
		released = append(released, name)
	}
	made, err := Made(pod, r.Stored, r.Claims.Claim)
	if err != nil {
		return released, err
	}
	if removed, err := r.RemoveMade(ctx, pod, made, FitsNowhere); err != nil || !removed {
		return released, err
	}
	return append(released, klog.KObj(made[0]).String()), nil
}

// isReservedFor reports whether a claim has no consumers other than the given pods.
func isReservedFor(claim *resourceapi.ResourceClaim, pods map[types.UID]*v1.Pod) bool {
	return !slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return pods[consumer.UID] == nil
	})
}
