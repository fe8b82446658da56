package quartermaster

import (
	"context"
	"slices"
	"time"

	"github.com/quartermaster-dra/quartermaster/internal/commit/conflicts"
)

// report starts the reporting of conflicts with the scheduler's first plugin, until the context ends. After that the
// Order starts to find conflicts.
func (s *shared) report(pl *Quartermaster, ctx context.Context) {
	s.profilesMutex.Lock()
	s.profiles = append(s.profiles, pl)
	s.profilesMutex.Unlock()
	s.reporting.Do(func() {
		reporter := &conflicts.Reporter{
			Order:    s.Order,
			Objects:  pl.claims,
			Leads:    s.Leads,
			Settling: s.settling,
			Evicts:   func() bool { return pl.args.OnConflict == EvictOnConflict },
			Client:   pl.handle.ClientSet(),
			Recorder: pl.handle.EventRecorder(),
		}
		reporter.Start(ctx)
		go s.Order.Run(ctx)
	})
}

// settling returns the longest time for which claims of any profile may still be settling.
func (s *shared) settling() time.Duration {
	s.profilesMutex.Lock()
	profiles := slices.Clone(s.profiles)
	s.profilesMutex.Unlock()
	var settling time.Duration
	for _, pl := range profiles {
		settling = max(settling, pl.contest.StillSettling())
	}
	return settling
}
