package quartermaster

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
	"github.com/quartermaster-dra/quartermaster/internal/release"
)

// startReleases has claims deallocated for which preemptors wait.
func (pl *Quartermaster) startReleases(ctx context.Context, pods cache.SharedIndexInformer) error {
	pl.release = release.New(pl.writer, pl.claims, pl.commits.Observe, pl.needsNot)
	pl.planner = pl.newPlanner()
	if err := pl.release.Follow(pods, pl.handle.SharedInformerFactory().Resource().V1().ResourceClaims().Informer()); err != nil {
		return err
	}
	go pl.release.Run(ctx)
	return nil
}

// needsNot reports whether a PodGroup for which a claim is reserved does without it for now: none of its pods is on a
// node or about to be. Those of other schedulers may be, so theirs keep it.
func (pl *Quartermaster) needsNot(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) bool {
	if pl.groups != nil && pl.groups.InUse(claim.UID) {
		return false
	}
	users, err := pl.claims.Users(claim.Namespace, claim.Name)
	return err == nil && !slices.ContainsFunc(users, func(pod *v1.Pod) bool {
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		return podgroup.NameOf(pod) == consumer.Name && !ended && (pod.Spec.NodeName != "" || pl.state.profile(pod.Spec.SchedulerName) == nil)
	})
}

// profile returns the profile of that name, nil if the scheduler has none.
func (s *shared) profile(name string) *Quartermaster {
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	for _, profile := range s.profiles {
		if profile.handle.ProfileName() == name {
			return profile
		}
	}
	return nil
}

// awaitRelease has claims deallocated for a pod as soon as nobody uses them: those that are about to be, and those of
// the pod's victims.
func (pl *Quartermaster) awaitRelease(c *cycle, pod *v1.Pod) {
	claims := pl.standing(c).Ending()
	if nomination := pl.state.nominations.Of(pod.UID); nomination != nil {
		claims = append(claims, nomination.Awaited...)
	}
	pl.release.Await(pod.UID, claims...)
}
