package quartermaster

import (
	"context"
	"slices"
	"time"

	"github.com/quartermaster-dra/quartermaster/internal/conflictreport"
)

// report has the first plugin of the scheduler report conflicts, until the context ends. Only
// then does the order begin to find any.
func (s *shared) report(pl *Quartermaster, ctx context.Context) {
	s.profilesMutex.Lock()
	s.profiles = append(s.profiles, pl)
	s.profilesMutex.Unlock()
	s.reporting.Do(func() {
		reporter := &conflictreport.Reporter{
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

// settling is for how long claims of any profile may go on to settle.
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
