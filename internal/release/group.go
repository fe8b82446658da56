package release

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
)

// Groups says which PodGroups do without their claims for now.
type Groups struct {
	Known *podclaims.Claims
	// InUse are the claims that attempts of this process use, nil if there can be none.
	InUse  *podgroup.Claims
	Client kubernetes.Interface
	// Ours reports whether this process schedules the pods with a spec.schedulerName.
	Ours func(schedulerName string) bool
}

// Gone implements GroupGone: none of the group's pods is on a node or about to be. Those of other schedulers may be, so
// theirs keep the claim.
func (g *Groups) Gone(ctx context.Context, claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) (gone bool, end func(), err error) {
	users, err := g.Known.Users(claim.Namespace, claim.Name)
	if err != nil || slices.ContainsFunc(users, func(pod *v1.Pod) bool {
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		return podgroup.NameOf(pod) == consumer.Name && !ended && (pod.Spec.NodeName != "" || !g.Ours(pod.Spec.SchedulerName))
	}) {
		return false, nil, err
	}
	if g.InUse == nil || !g.InUse.BeginRelease(claim.UID) {
		return false, nil, nil
	}
	// A pod may have been bound just before, so that the informer has not told of it.
	member := &v1.Pod{Spec: v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &consumer.Name}}}
	member.Namespace = claim.Namespace
	if bound, err := podgroup.AnyBound(ctx, g.Client, member, claim.Name); err != nil || bound {
		g.InUse.Released(claim.UID)
		return false, nil, err
	}
	return true, func() { g.InUse.Released(claim.UID) }, nil
}
