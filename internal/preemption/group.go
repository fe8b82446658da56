package preemption

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// Groups says which PodGroups do without their claims for now.
type Groups struct {
	Known *claims.Claims
	// InUse are the claims that attempts of this process use, nil if there can be none.
	InUse *workload.Claims
	// Server knows whether a group is bound, and its pods.
	Server interface {
		write.Asker
		Member(ctx context.Context, claim *resourceapi.ResourceClaim, podGroup string, onNode bool, counts func(*v1.Pod) bool) (*v1.Pod, error)
	}
	// Profiles are the profiles of this scheduler.
	Profiles Profiles
	// Takeover protects the reservations that another process made.
	Takeover Takeover
}

// Takeover is the time after this process began to schedule in which bindings may arrive that another process has sent.
type Takeover interface {
	// LeavesAlone reports whether a reservation must not be removed yet. If so, the pod is tried again after the pause.
	LeavesAlone(claim, consumer types.UID, pod *v1.Pod) bool
}

// Usage implements GroupUsage: a group needs a claim while one of its pods is on a node or about to be. Those of other
// schedulers may be, so theirs keep it.
func (g *Groups) Usage(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (state Usage, unbound write.Unbound, end func(), err error) {
	users, err := g.Known.Users(claim.Namespace, claim.Name)
	users = slices.DeleteFunc(users, func(pod *v1.Pod) bool { return dra.PodGroupName(pod) != consumer.Name || podutil.IsPodTerminal(pod) })
	if err != nil || g.InUse == nil || slices.ContainsFunc(users, func(pod *v1.Pod) bool {
		return pod.Spec.NodeName != "" || !g.Profiles.Schedules(pod.Spec.SchedulerName)
	}) {
		return Used, unbound, nil, err
	}
	if len(users) > 0 && g.Takeover.LeavesAlone(claim.UID, consumer.UID, users[0]) {
		return Unheard, unbound, nil, nil // No event tells of the end of the pause.
	}
	if !g.InUse.BeginRelease(claim.UID) {
		return Unheard, unbound, nil, nil // Nothing tells when an attempt ends.
	}
	// A pod may have been bound just before, so that the informer has not told of it.
	if unbound, err = g.Server.Ask(ctx, claim, consumer); err != nil {
		g.InUse.Released(claim.UID)
		return Unheard, unbound, nil, write.UnlessBound(err)
	}
	// Nor of a pod that another scheduler is about to bind: such a binding does not change a claim that is reserved for the group.
	theirs, err := g.Server.Member(ctx, claim, consumer.Name, false, func(pod *v1.Pod) bool { return !g.Profiles.Schedules(pod.Spec.SchedulerName) })
	if err != nil || theirs != nil {
		g.InUse.Released(claim.UID)
		return Unheard, unbound, nil, err
	}
	return Abandoned, unbound, func() { g.InUse.Released(claim.UID) }, nil
}
