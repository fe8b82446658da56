package quartermaster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// newRunner returns the Runner that commits the claims of pods.
func (pl *Quartermaster) newRunner() *commit.Runner {
	return &commit.Runner{
		State:        pl.state.State,
		Writer:       pl.writer,
		Known:        pl.claims,
		Contest:      pl.contest,
		Takeover:     pl.takeover,
		Groups:       pl.groups, // If it is nil, no claim belongs to a group.
		Maker:        extended.Maker{Writer: pl.writer},
		Signals:      pl.scoring,
		AwaitDevices: pl.awaitDevices,
		TryAgain:     pl.tryAgain,
		Stopping:     pl.stopping,
	}
}

// tryAgain has a pod tried again whose attempt was undone a moment ago.
func (pl *Quartermaster) tryAgain(pod types.UID) {
	if entry := pl.waiting.Get(pod); entry != nil {
		pl.waker.TryAgain(entry)
	}
}

// releaseIdle starts the release of claims that keep devices in vain, once for all profiles.
func (s *shared) releaseIdle(ctx context.Context, pl *Quartermaster) {
	idle := &commit.Idle{Runner: pl.commits, RunnerOf: s.runnerOf, Skips: pl.legacy.Allocates}
	s.idle.Do(func() { go idle.Run(ctx) })
}

// runnerOf returns the Runner of a profile, nil if the scheduler has no profile of that name.
func (s *shared) runnerOf(schedulerName string) *commit.Runner {
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	for _, profile := range s.profiles {
		if profile.handle.ProfileName() == schedulerName {
			return profile.commits
		}
	}
	return nil
}
