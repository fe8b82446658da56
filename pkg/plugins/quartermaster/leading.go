package quartermaster

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/leadership"
)

// leads returns nil if this process is the one that schedules: the plugin, its informers and
// what follows claims run in each replica. If nobody follows the election (a program that
// has the plugin in kube-scheduler's own command), then it leads once a pod has been tried.
func (s *clusterState) leads() error {
	if !s.lease.Followed() && !s.synced.Load() {
		return fmt.Errorf("%w, as far as is known: no pod was tried so far", leadership.ErrNotLeading)
	}
	return s.lease.Leads()
}
