package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// Idle deallocates claims that keep devices in vain: claims that are reserved, but none of whose consumers is on a node or
// about to be. An attempt undoes what it has written, so they are left by processes that have ended. The pods cannot be relied
// on to release them: another plugin may keep a pod out of the queue, or reject it before anybody looks at its claims.
type Idle struct {
	// Runner is the Runner of any profile, for what all of them share.
	*Runner
	// Profiles has the Runner of each profile.
	Profiles Profiles
	// Controllers are the controllers of drivers.
	Controllers Controllers
}

// Profiles are the profiles of a scheduler.
type Profiles interface {
	// RunnerOf returns the Runner of a profile, nil for pods that other schedulers bind.
	RunnerOf(schedulerName string) *Runner
}

// Controllers are controllers of drivers.
type Controllers interface {
	// Allocates reports whether a controller allocates and deallocates a claim.
	Allocates(*resourceapi.ResourceClaim) bool
}

// IdleInterval is the interval between two looks. A claim that is found idle twice in a row is deallocated, so that pods
// have their turn before.
const IdleInterval = 30 * time.Second

// Run looks for idle claims until the context ends.
func (i *Idle) Run(ctx context.Context) {
	var found sets.Set[types.UID]
	wait.UntilWithContext(ctx, func(ctx context.Context) { found = i.look(ctx, found) }, IdleInterval)
}

// look deallocates the claims that are idle and were so before. It returns those that are idle for the first time.
func (i *Idle) look(ctx context.Context, before sets.Set[types.UID]) sets.Set[types.UID] {
	found := sets.New[types.UID]()
	if i.State.Leads() != nil {
		return found
	}
	for _, obj := range i.State.Claims.List() {
		stored, ok := obj.(*resourceapi.ResourceClaim)
		if !ok || stored.Status.Allocation == nil || len(stored.Status.ReservedFor) == 0 {
			continue
		}
		claim := i.Known.Claim(stored.Namespace, stored.Name)
		switch {
		case claim == nil || !i.isIdle(claim):
		case !before.Has(claim.UID):
			found.Insert(claim.UID)
		default:
			if err := i.release(ctx, claim); err != nil {
				klog.FromContext(ctx).Error(err, "Cannot release a claim that keeps devices for pods that wait; trying again", "claim", klog.KObj(claim))
			}
		}
	}
	return found
}

// isIdle reports whether a claim keeps devices in vain, as far as is known without asking the server.
func (i *Idle) isIdle(claim *resourceapi.ResourceClaim) bool {
	if claim.Status.Allocation == nil || len(claim.Status.ReservedFor) == 0 || i.Controllers.Allocates(claim) {
		return false
	}
	return !slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		pods, gone := i.podsOf(claim, consumer)
		return len(pods) == 0 && !gone || slices.ContainsFunc(pods, func(pod *v1.Pod) bool {
			runner := i.runnerOf(pod)
			return runner == nil || runner.pending.has(pod.UID) || runner.pending.isTried(pod.UID)
		})
	})
}

// podsOf returns the known pods for which an entry of status.reservedFor reserves a claim. gone is set if none is known, and
// the entry is one that kube-controller-manager may leave for ever:
//   - for a pod for whose extended resources the claim was made: the pod does not name the claim before it is about to be bound,
//     so that kube-controller-manager may not learn that the pod is gone;
//   - for a PodGroup, if the claim is being deleted: no pod of the group can begin to use it.
//
// Entries for other pods that are gone are left to kube-controller-manager.
func (i *Idle) podsOf(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (pods []*v1.Pod, gone bool) {
	only := *claim
	only.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{consumer}
	pods = i.Known.Consumers(&only)
	endless := podclaims.MadeFor(claim) == consumer.UID || dra.IsPodGroup(consumer) && claim.DeletionTimestamp != nil
	return pods, len(pods) == 0 && endless
}

// runnerOf returns the Runner that tries a pod, nil if the pod is on a node, belongs to another scheduler, or may have been
// bound by another process whose binding has not arrived.
func (i *Idle) runnerOf(pod *v1.Pod) *Runner {
	runner := i.Profiles.RunnerOf(pod.Spec.SchedulerName)
	if pod.Spec.NodeName != "" || runner == nil || runner.Takeover.Left() > 0 {
		return nil
	}
	return runner
}

// release deallocates a claim, unless the server says that a consumer is on a node.
func (i *Idle) release(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	var ends []func()
	defer func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}()
	var unbound []write.Unbound
	for _, consumer := range claim.Status.ReservedFor {
		end, idle := i.keepIdle(claim, consumer)
		ends = append(ends, end)
		if !idle {
			return nil
		}
		evidence, err := i.ask(ctx, claim, consumer)
		if err != nil {
			return write.UnlessBound(err)
		}
		unbound = append(unbound, evidence)
	}
	ctx = write.Because(ctx, write.Cause{Why: "because the pods that it is reserved for wait and no attempt goes on with it"})
	left, _, err := i.Writer.ReleaseAbandoned(ctx, claim, unbound)
	switch {
	case errors.Is(err, write.ErrInUse) || errors.Is(err, write.ErrBound) || errors.Is(err, write.ErrAllocatedElsewhere):
		return nil
	case err != nil:
		return err
	}
	i.Observe(ctx, claim, left)
	klog.FromContext(ctx).Info("Released a claim that kept devices for pods that wait", "claim", klog.KObj(claim))
	return nil
}

// keepIdle prevents attempts with a claim for one of its consumers, until end is called. It returns false if one has begun.
func (i *Idle) keepIdle(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (end func(), idle bool) {
	var ends []func()
	end = func() {
		for _, end := range ends {
			end()
		}
	}
	if dra.IsPodGroup(consumer) {
		if !i.Groups.BeginRelease(claim.UID) {
			return end, false
		}
		ends = append(ends, func() { i.Groups.Released(claim.UID) })
	}
	pods, gone := i.podsOf(claim, consumer)
	for _, pod := range pods {
		runner := i.runnerOf(pod)
		if runner == nil || !runner.pending.beginUnlessTried(pod.UID) {
			return end, false
		}
		ends = append(ends, func() {
			runner.pending.end(pod.UID)
			runner.Profile.TryAgain(pod.UID)
		})
	}
	return end, gone || len(pods) > 0
}

// ask asks the server whether a consumer is on a node. Pods that are not known must be gone: the watch of pods may be late, and
// another scheduler about to bind such a pod.
func (i *Idle) ask(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (write.Unbound, error) {
	if _, gone := i.podsOf(claim, consumer); gone {
		pod, err := i.podAtServer(ctx, claim, consumer)
		if err != nil {
			return write.Unbound{}, fmt.Errorf("find out whether %s %s/%s (UID %s) has pods: %w", consumer.Resource, claim.Namespace, consumer.Name, consumer.UID, err)
		}
		if pod != nil {
			return write.Unbound{}, fmt.Errorf("%w or may be: pod %s/%s is there", write.ErrBound, pod.Namespace, pod.Name)
		}
	}
	return i.Writer.Ask(ctx, claim, consumer)
}

// podAtServer returns a pod for which an entry reserves the claim, on a node or not, as the server has it; nil if there is none.
func (i *Idle) podAtServer(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (*v1.Pod, error) {
	if dra.IsPodGroup(consumer) {
		return i.Writer.Member(ctx, claim, consumer.Name, false, write.Any)
	}
	pod, err := i.Writer.Pod(ctx, claim.Namespace, consumer.Name)
	if pod != nil && pod.UID != consumer.UID {
		return nil, err
	}
	return pod, err
}
