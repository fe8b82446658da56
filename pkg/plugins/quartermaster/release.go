package quartermaster

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
	"github.com/quartermaster-dra/quartermaster/internal/release"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// followReleases has claims deallocated for which preemptors wait.
func (pl *Quartermaster) followReleases(ctx context.Context, pods, claims cache.SharedIndexInformer) error {
	pl.release = release.New(pl.writer, pl.claims, pl.commits.Observe, pl.needsNot)
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: pl.podHappened, DeleteFunc: func(obj any) { pl.podHappened(obj, nil) }})
	if err != nil {
		return fmt.Errorf("watch pods for what they hold: %w", err)
	}
	changed := func(oldObj, newObj any) {
		before, after := informer.Versions[resourceapi.ResourceClaim](oldObj, newObj)
		if after == nil {
			after = before
		}
		if after != nil {
			pl.release.ClaimChanged(after)
		}
	}
	if _, err := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: changed, DeleteFunc: func(obj any) { changed(obj, nil) }}); err != nil {
		return fmt.Errorf("watch claims for which preemptors wait: %w", err)
	}
	go pl.release.Run(ctx)
	return nil
}

// podHappened takes notice of a pod that may have ended, or may not wait for anybody any more.
func (pl *Quartermaster) podHappened(oldObj, newObj any) {
	before, after := informer.Versions[v1.Pod](oldObj, newObj)
	if before != nil && (after == nil || after.UID != before.UID) {
		pl.release.PodChanged(before)
		pl.release.Forget(before.UID)
	}
	if after != nil && (after.Status.Phase == v1.PodSucceeded || after.Status.Phase == v1.PodFailed || after.DeletionTimestamp != nil) {
		pl.release.PodChanged(after)
	}
	if after != nil && after.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == "") {
		pl.release.Forget(after.UID)
	}
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

// released returns the claims that are free when victims are gone.
func (pl *Quartermaster) released(victims []*v1.Pod) (claims []ledger.ClaimRef) {
	for _, use := range pl.holders.Released(byUID(victims)) {
		claims = append(claims, use.Claim)
	}
	return claims
}
