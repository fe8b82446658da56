package quartermaster

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/podstatus"
)

// unschedulable is the status of a pod that cannot be scheduled until some event changes
// that. Removing other pods is not such an event (where it is one, see rejection), hence
// "unresolvable": preemption need not try.
func unschedulable(format string, args ...any) *fwk.Status {
	return podstatus.Newf(fwk.UnschedulableAndUnresolvable, format, args...)
}

// unschedulableFor is unschedulable with a reason whose text is made when somebody reads it.
func unschedulableFor(reason error) *fwk.Status {
	return podstatus.Of(fwk.UnschedulableAndUnresolvable, reason)
}

// failed is the status after something went wrong that may work the next time. The
// scheduler tries again after a pause.
func failed(err error) *fwk.Status { return podstatus.Failed(err) }
