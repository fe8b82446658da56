package cluster

import (
	"fmt"
	"time"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

// Leads returns nil if this process is the one that schedules: the plugin, its informers and the
// claim followers run in each replica. If the process does not follow the leader election (a
// program with the plugin in kube-scheduler's own command), it leads once a pod has been tried.
func (s *State) Leads() error {
	if !s.Lease.Followed() && !s.synced.Load() {
		return fmt.Errorf("%w, as far as is known: no pod was tried so far", lease.ErrNotLeading)
	}
	return s.Lease.Leads()
}

// LeadsSince returns the time at which this process began to schedule, or the current time if it
// has not begun.
func (s *State) LeadsSince() time.Time {
	if s.Lease.Followed() {
		return s.Lease.Since()
	}
	if began := s.began.Load(); began != nil {
		return *began
	}
	return time.Now()
}
