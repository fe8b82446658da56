package quartermaster

import (
	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/claimevents"
	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
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

// withClaimEvents has changes of allocations told in events, unless the profile is to make none.
func (pl *Quartermaster) withClaimEvents() claimwriter.Option {
	recorder := pl.handle.EventRecorder()
	if *pl.args.ClaimEventsPerSecond == 0 || recorder == nil {
		return claimwriter.WithChanges(nil)
	}
	pl.state.claimEvents.AtLeast(int(*pl.args.ClaimEventsPerSecond))
	events := &claimevents.Recorder{Events: recorder, Limit: pl.state.claimEvents, APIVersion: apiversions.ClaimVersion(pl.handle.ClientSet())}
	return claimwriter.WithChanges(events.Changed)
}
