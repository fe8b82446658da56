package quartermaster

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

const cycleKey fwk.StateKey = Name

// A cycle is the plugin's state of one attempt to schedule a pod. PreFilter creates it. The phases after Filter run one
// after the other. Each part is in the file of PreFilter's step for it.
type cycle struct {
	// pod is the pod's entry, which records rejections.
	pod *queue.Pod

	cycleClaims
	cycleNodes
	cycleGang
	cyclePreemption
}

// Clone implements fwk.StateData. Dry runs share the state; their changes are in an entry of their own, see
// preemption.DryRun.
func (c *cycle) Clone() fwk.StateData { return c }

// cycleOf returns the state that PreFilter stored. It is nil if PreFilter did not run for this pod, or had nothing to
// do.
func cycleOf(cs fwk.CycleState) (*cycle, error) {
	return kube.Stored[*cycle](cs, cycleKey)
}
