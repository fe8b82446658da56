package quartermaster

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

// unschedulable is the status of a pod that cannot be scheduled until some event changes
// that. Removing other pods is not such an event (where it is one, see rejection), hence
// "unresolvable": preemption need not try.
func unschedulable(format string, args ...any) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf(format, args...))
}

// unschedulableFor is unschedulable with a reason whose text is made when somebody reads it.
func unschedulableFor(reason error) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(reason)
}

// failed is the status after something went wrong that may work the next time. The
// scheduler tries again after a pause.
func failed(err error) *fwk.Status { return fwk.AsStatus(err) }
