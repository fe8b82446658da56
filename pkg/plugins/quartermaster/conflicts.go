package quartermaster

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

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
			Objects:  reportedObjects{pl},
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

// reportedObjects implements conflictreport.Objects.
type reportedObjects struct{ pl *Quartermaster }

// Claim implements conflictreport.Objects.
func (o reportedObjects) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return o.pl.claim(namespace, name)
}

// Consumers implements conflictreport.Objects.
func (o reportedObjects) Consumers(claim *resourceapi.ResourceClaim) []*v1.Pod {
	return o.pl.consumers(claim)
}
