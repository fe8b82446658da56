package clusterstate

import (
	"fmt"
	"time"

	"github.com/quartermaster-dra/quartermaster/internal/leadership"
)

// Leads returns nil if this process is the one that schedules: the plugin, its informers and
// what follows claims run in each replica. If nobody follows the election (a program that
// has the plugin in kube-scheduler's own command), then it leads once a pod has been tried.
func (s *State) Leads() error {
	if !s.Lease.Followed() && !s.synced.Load() {
		return fmt.Errorf("%w, as far as is known: no pod was tried so far", leadership.ErrNotLeading)
	}
	return s.Lease.Leads()
}

// LeadsSince is when this process began to schedule, now if it has not begun.
func (s *State) LeadsSince() time.Time {
	if s.Lease.Followed() {
		return s.Lease.Since()
	}
	if began := s.began.Load(); began != nil {
		return *began
	}
	return time.Now()
}
