package nodeallocatable

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// assigned is the place of a pod in a dry run for its PodGroup, with what its devices take of the node.
type assigned struct {
	fwk.ProposedAssignment
	info fwk.PodInfo
}

// GetPodInfo implements fwk.ProposedAssignment.
func (a assigned) GetPodInfo() fwk.PodInfo { return a.info }

// CountAssigned adds to each pod of a PodGroup what its devices take of the node, as kube-scheduler does when it assumes a pod. Its
// preemption for PodGroups puts the pods there as their specs say. It would find that nobody has to go where there is no room.
func CountAssigned(ctx context.Context, placed *fwk.PodGroupAssignments) error {
	for i, one := range placed.ProposedAssignments {
		if one.GetNodeName() == "" {
			continue
		}
		takes := takenOf(ctx, one.GetCycleState(), one.GetNodeName())
		if len(takes) == 0 {
			continue
		}
		info, err := kube.NewPodInfo(taking(one.GetPod(), takes))
		if err != nil {
			return fmt.Errorf("count what the devices of pod %s take of node %s: %w", klog.KObj(one.GetPod()), one.GetNodeName(), err)
		}
		placed.ProposedAssignments[i] = assigned{one, info}
	}
	return nil
}
