package quartermaster

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// unschedulable returns the status of a pod that cannot be scheduled until an event changes that. The removal of other
// pods is not such an event (rejection handles the case where it is), hence "unresolvable": preemption need not try.
func unschedulable(format string, args ...any) *fwk.Status {
	return kube.Newf(fwk.UnschedulableAndUnresolvable, format, args...)
}

// unschedulableFor is like unschedulable, with a reason whose text is built only when it is read.
func unschedulableFor(reason error) *fwk.Status {
	return kube.Of(fwk.UnschedulableAndUnresolvable, reason)
}

// failed returns the status after an error that may not occur the next time. The scheduler tries again after a pause.
func failed(err error) *fwk.Status { return kube.Failed(err) }
