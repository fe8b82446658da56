package quartermaster

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
)

// startReleases starts the deallocation of claims that preemptors wait for.
func (pl *Quartermaster) startReleases(ctx context.Context, pods cache.SharedIndexInformer) error {
	groups := &preemption.Groups{Known: pl.claims, InUse: pl.groups, Ask: pl.writer.Ask, Ours: pl.state.schedules}
	pl.release = preemption.NewRelease(pl.writer, pl.claims, pl.commits.Observe, groups.Usage, pl.planAgain)
	pl.planner = pl.newPlanner()
	if err := pl.release.Follow(pods, pl.handle.SharedInformerFactory().Resource().V1().ResourceClaims().Informer()); err != nil {
		return err
	}
	go pl.release.Run(ctx)
	return nil
}

// planAgain has a pod tried again that waits for a claim which others use on: it evicts these as well, or gives up what is kept for
// it.
func (pl *Quartermaster) planAgain(preemptor types.UID) {
	entry := pl.waiting.Get(preemptor)
	if entry == nil {
		return
	}
	if gang := crd.KeyOf(entry.Latest()); gang != "" {
		pl.state.gangs.Stir(gang)
		return
	}
	pl.waker.WakeAfterPause(entry)
}

// schedules reports whether the scheduler has a profile of that name.
func (s *shared) schedules(name string) bool {
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	return slices.ContainsFunc(s.profiles, func(profile *Quartermaster) bool { return profile.handle.ProfileName() == name })
}

// awaitRelease requests the deallocation of claims for a pod, as soon as they have no users: those about to be
// deallocated, and those of the pod's victims.
func (pl *Quartermaster) awaitRelease(c *cycle, pod *v1.Pod) {
	claims := pl.standing(c).Ending()
	if nomination := pl.state.nominations.Of(pod.UID); nomination != nil {
		claims = append(claims, nomination.Awaited...)
	}
	pl.release.Await(pod.UID, claims...)
}
