package quartermaster

import (
	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
)

// newRunner makes what commits the claims of pods.
func (pl *Quartermaster) newRunner() *commitrunner.Runner {
	return &commitrunner.Runner{
		State:        pl.state.State,
		Writer:       pl.writer,
		Known:        pl.claims,
		Contest:      pl.contest,
		Takeover:     pl.takeover,
		Groups:       pl.groups, // No claim is of a group if there are none.
		Maker:        extendedresource.Maker{Writer: pl.writer},
		Signals:      pl.scoring,
		AwaitDevices: pl.awaitDevices,
		IsNeeded:     pl.isNeeded,
		Activate:     pl.handle.Activate,
		Stopping:     pl.stopping,
	}
}
