package quartermaster

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

// waiting is the status of a pod that cannot be scheduled until some event changes
// that. Making room by removing other pods is not such an event yet, hence
// "unresolvable": preemption need not try.
func waiting(format string, args ...any) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf(format, args...))
}

// failed is the status after something went wrong that may work the next time. The
// scheduler tries again after a pause.
func failed(err error) *fwk.Status { return fwk.AsStatus(err) }
