package quartermaster

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/gang/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
)

// planGroup plans nodes and devices for all pods of a PodGroup of the API (KEP-4671) together when the first of them is
// tried: kube-scheduler itself takes the pods one after the other, and never revisits a pod that has a node. Without a
// plan the pods are tried one after the other, and each reports what it lacks.
func (pl *Quartermaster) planGroup(ctx context.Context, group *groupCycle, pod *v1.Pod, nodes []fwk.NodeInfo) {
	name := podclaims.PodGroupName(pod)
	if name == "" || !group.BeginPlan() {
		return
	}
	logger := klog.FromContext(ctx)
	state, err := pl.handle.PodGroupManager().PodGroupStates().Get(pod.Namespace, name)
	if err != nil {
		logger.V(4).Info("Cannot plan a PodGroup, trying one pod after the other", "podGroup", klog.KRef(pod.Namespace, name), "err", err)
		return
	}
	podGroup, err := pl.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, name)
	if err != nil {
		return
	}
	pods := slices.Collect(maps.Values(state.UnscheduledPods()))
	if len(pods) < 2 {
		return
	}
	slices.SortFunc(pods, planning.Older)
	need := 1
	if gang := podGroup.Spec.SchedulingPolicy.Gang; gang != nil {
		need = max(need, int(gang.MinCount)-state.ScheduledPodsCount())
	}
	out, err := pl.planPods(ctx, nodes, planning.Gang{Name: pod.Namespace + "/" + name, Pods: pods, Need: need, AnyOrder: true}, nil)
	if err != nil || out.Plan == nil {
		logger.V(4).Info("No plan for a PodGroup, trying one pod after the other", "podGroup", klog.KRef(pod.Namespace, name), "err", err)
		return
	}
	group.Plans(out.Seats(name))
}

// takeSeat stores the plan for a pod from its PodGroup's plan. It returns the node, "" if nothing is planned.
func (c *cycle) takeSeat() (node string) {
	seat := c.groupSeat()
	if seat == nil {
		return ""
	}
	claims := c.open()
	if seat.Made != nil {
		claims = append(claims, seat.Made)
	}
	if plan := seat.PlanOf(claims); plan != nil {
		c.setPlan(seat.Node, plan)
	}
	return seat.Node
}

// groupSeat returns the seat of a pod in the plan for its PodGroup, nil if it has none.
func (c *cycle) groupSeat() *coordinator.Seat {
	if c.group == nil || c.place != (workload.Place{}) {
		return nil
	}
	return c.group.Seat(c.uid)
}
