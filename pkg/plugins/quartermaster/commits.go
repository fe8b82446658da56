package quartermaster

import (
	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
)

// newRunner returns the Runner that commits the claims of pods.
func (pl *Quartermaster) newRunner() *commitrunner.Runner {
	return &commitrunner.Runner{
		State:        pl.state.State,
		Writer:       pl.writer,
		Known:        pl.claims,
		Contest:      pl.contest,
		Takeover:     pl.takeover,
		Groups:       pl.groups, // If it is nil, no claim belongs to a group.
		Maker:        extendedresource.Maker{Writer: pl.writer},
		Signals:      pl.scoring,
		AwaitDevices: pl.awaitDevices,
		IsNeeded:     pl.isNeeded,
		Activate:     pl.handle.Activate,
		Stopping:     pl.stopping,
	}
}
