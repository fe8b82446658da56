package preemption

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// A GroupRun is a dry run of preemption for a PodGroup as a whole. kube-scheduler takes pods of lower priority out of
// its snapshot without telling any plugin, and runs all phases from PreFilter to Reserve. So the GroupRun counts pods
// that the snapshot lacks as gone, and plans of Reserve do not go into the ledger. Only the scheduling goroutine
// touches it. Member is the caller's data about a pod of the group.
type GroupRun[Member any] struct {
	handle  fwk.Handle
	holders *Holders
	// before holds the pods that were on nodes when the run began. gone holds those with devices that kube-scheduler
	// has taken out since, by UID; it is nil until the first Enter.
	before, gone map[types.UID]*v1.Pod
	members      map[types.UID]Member
	worlds       map[types.UID]*World
	// plans holds the reservations of the group's pods.
	plans map[types.UID][]ledger.Use
}

// NewGroupRun returns a GroupRun. It must be called before kube-scheduler takes anything out of the snapshot.
func NewGroupRun[Member any](handle fwk.Handle, holders *Holders) (*GroupRun[Member], error) {
	r := &GroupRun[Member]{
		handle: handle, holders: holders, members: make(map[types.UID]Member), worlds: make(map[types.UID]*World), plans: make(map[types.UID][]ledger.Use),
	}
	var err error
	r.before, err = r.onNodes()
	return r, err
}

// onNodes returns the pods in the scheduler's snapshot.
func (r *GroupRun[Member]) onNodes() (map[types.UID]*v1.Pod, error) {
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

// Enter begins the attempt of a pod of the group in this dry run.
func (r *GroupRun[Member]) Enter(cs fwk.CycleState, pod *v1.Pod, member Member) error {
	if r.gone == nil {
		left, err := r.onNodes()
		if err != nil {
			return err
		}
		r.gone = maps.Clone(r.before)
		maps.DeleteFunc(r.gone, func(uid types.UID, pod *v1.Pod) bool { return left[uid] != nil || len(r.holders.UsesOf(pod)) == 0 })
	}
	w := &World{gone: maps.Clone(r.gone), others: func() []ledger.Use { return r.others(pod.UID) }}
	r.members[pod.UID], r.worlds[pod.UID] = member, w
	cs.Write(worldKey, w)
	return nil
}

// Of returns the member given to Enter for a pod, and the pod's world; nil if Enter was not called.
func (r *GroupRun[Member]) Of(pod types.UID) (Member, *World) { return r.members[pod], r.worlds[pod] }

// Reserve stores the plan for a pod.
func (r *GroupRun[Member]) Reserve(pod types.UID, plan []ledger.Use) { r.plans[pod] = plan }

// Planned returns the plan given to Reserve for a pod.
func (r *GroupRun[Member]) Planned(pod types.UID) []ledger.Use { return r.plans[pod] }

// Unreserve undoes Reserve.
func (r *GroupRun[Member]) Unreserve(pod types.UID) { delete(r.plans, pod) }

// others returns the plans of all members except the given one.
func (r *GroupRun[Member]) others(member types.UID) (uses []ledger.Use) {
	for other, plan := range r.plans {
		if other != member {
			uses = append(uses, plan...)
		}
	}
	return uses
}

// Allocation returns the planned allocation of a claim of the group, nil if there is none.
func (r *GroupRun[Member]) Allocation(claim types.UID) *resourceapi.AllocationResult {
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
func (r *GroupRun[Member]) Victims(member types.UID) []*v1.Pod {
	return slices.Collect(maps.Values(r.worlds[member].gone))
}
