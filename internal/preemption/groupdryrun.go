package preemption

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/nodeallocatable"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// A GroupDryRun is a dry run of preemption for a PodGroup as a whole. kube-scheduler takes pods of lower priority out of
// its snapshot without telling any plugin, and runs all phases from PreFilter to Reserve. So the GroupDryRun counts pods
// that the snapshot lacks as gone, and plans of Reserve do not go into the ledger. Only the scheduling goroutine
// touches it.
type GroupDryRun struct {
	handle  fwk.Handle
	holders *Holders
	// before holds the pods that were on nodes when the run began. gone holds those with devices that kube-scheduler
	// has taken out since, by UID; it is nil until the first pod is tried.
	before, gone map[types.UID]*v1.Pod
	// states and runs hold the latest cycle state and dry run of each pod of the group.
	states map[types.UID]fwk.CycleState
	runs   map[types.UID]*DryRun
	// plans holds the reservations of the group's pods.
	plans map[types.UID][]ledger.Use
}

// groupDryRunKey is the key of a GroupDryRun in the context of its attempts.
type groupDryRunKey struct{}

// NewGroupDryRun returns a GroupDryRun. It must be called before kube-scheduler takes anything out of the snapshot.
func NewGroupDryRun(handle fwk.Handle, holders *Holders) (*GroupDryRun, error) {
	r := &GroupDryRun{
		handle: handle, holders: holders, states: make(map[types.UID]fwk.CycleState), runs: make(map[types.UID]*DryRun), plans: make(map[types.UID][]ledger.Use),
	}
	var err error
	r.before, err = r.onNodes()
	return r, err
}

// onNodes returns the pods in the scheduler's snapshot.
func (r *GroupDryRun) onNodes() (map[types.UID]*v1.Pod, error) {
	infos, err := r.handle.MutableSnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	pods := make(map[types.UID]*v1.Pod)
	for _, info := range infos {
		for _, pod := range info.GetPods() {
			pods[pod.GetPod().UID] = pod.GetPod()
		}
	}
	return pods, nil
}

// Attempts returns the function that tries the group's pods, as a part of this dry run. kube-scheduler creates the
// cycle states in that function, so the dry run reaches PreFilter in the context, and BeginDryRun moves it into the
// cycle state.
func (r *GroupDryRun) Attempts(schedule fwk.PodGroupSchedulingFunc) fwk.PodGroupSchedulingFunc {
	return func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		placed, status := schedule(context.WithValue(ctx, groupDryRunKey{}, r))
		if status.IsSuccess() {
			if err := nodeallocatable.CountAssigned(ctx, placed); err != nil {
				return nil, kube.Failed(err)
			}
		}
		return placed, status
	}
}

// BeginDryRun begins the attempt of a pod. If it is a part of a dry run for the pod's group, BeginDryRun puts the pod's
// DryRun into the cycle state, and returns it. Otherwise it returns nil.
func BeginDryRun(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) (*DryRun, error) {
	r, _ := ctx.Value(groupDryRunKey{}).(*GroupDryRun)
	if r == nil {
		return nil, nil
	}
	if r.gone == nil {
		left, err := r.onNodes()
		if err != nil {
			return nil, err
		}
		r.gone = maps.Clone(r.before)
		maps.DeleteFunc(r.gone, func(uid types.UID, pod *v1.Pod) bool { return left[uid] != nil || len(r.holders.UsesOf(pod)) == 0 })
	}
	d := &DryRun{gone: maps.Clone(r.gone), group: r, pod: pod.UID}
	r.states[pod.UID], r.runs[pod.UID] = cs, d
	cs.Write(dryRunKey, d)
	return d, nil
}

// Of returns the latest cycle state and dry run of a pod; nil if it was not tried.
func (r *GroupDryRun) Of(pod types.UID) (fwk.CycleState, *DryRun) { return r.states[pod], r.runs[pod] }

// Reserve stores the plan for a pod.
func (r *GroupDryRun) Reserve(pod types.UID, plan []ledger.Use) { r.plans[pod] = plan }

// Planned returns the plan given to Reserve for a pod.
func (r *GroupDryRun) Planned(pod types.UID) []ledger.Use { return r.plans[pod] }

// Unreserve undoes Reserve.
func (r *GroupDryRun) Unreserve(pod types.UID) { delete(r.plans, pod) }

// others returns the plans of all members except the given one.
func (r *GroupDryRun) others(member types.UID) (uses []ledger.Use) {
	for other, plan := range r.plans {
		if other != member {
			uses = append(uses, plan...)
		}
	}
	return uses
}

// Allocation returns the planned allocation of a claim of the group, nil if there is none.
func (r *GroupDryRun) Allocation(claim types.UID) *resourceapi.AllocationResult {
	for _, plan := range r.plans {
		for i := range plan {
			if plan[i].Claim.UID == claim {
				return plan[i].Allocation
			}
		}
	}
	return nil
}

// Victims returns the pods that are still gone for a member: kube-scheduler puts back all pods that need not go.
func (r *GroupDryRun) Victims(member types.UID) []*v1.Pod {
	return slices.Collect(maps.Values(r.runs[member].gone))
}
