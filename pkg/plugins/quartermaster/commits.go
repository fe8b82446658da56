package quartermaster

import (
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
