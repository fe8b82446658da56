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

// GroupRun is a world without pods of lower priority, in which kube-scheduler tries a PodGroup as a whole. It takes
// pods out of its snapshot for that, tells no plugin, and runs all phases from PreFilter to Reserve: so what is not in
// the snapshot any more is gone, and what Reserve plans goes into no ledger. Only the scheduling goroutine touches it.
// A Member is what is known of a pod of the group.
type GroupRun[Member any] struct {
	handle  fwk.Handle
	holders *Holders
	// before are the pods that were on nodes when it began, and gone those with devices that were taken out when the
	// group was tried, by UID; nil before that.
	before, gone map[types.UID]*v1.Pod
	members      map[types.UID]Member
	worlds       map[types.UID]*World
	// plans has what is reserved for the group's pods.
	plans map[types.UID][]ledger.Use
}

// NewGroupRun makes one before anything is taken out of the snapshot.
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

// Enter has the attempt of a pod of the group begin in this world.
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

// Of returns what Enter was given for a pod, and its world; nil if it was not called.
func (r *GroupRun[Member]) Of(pod types.UID) (Member, *World) { return r.members[pod], r.worlds[pod] }

// Reserve notes what a pod is to get.
func (r *GroupRun[Member]) Reserve(pod types.UID, plan []ledger.Use) { r.plans[pod] = plan }

// Planned returns what Reserve was given for a pod.
func (r *GroupRun[Member]) Planned(pod types.UID) []ledger.Use { return r.plans[pod] }

// Unreserve is the opposite of Reserve.
func (r *GroupRun[Member]) Unreserve(pod types.UID) { delete(r.plans, pod) }

// others returns what is reserved for members other than one of them.
func (r *GroupRun[Member]) others(member types.UID) (uses []ledger.Use) {
	for other, plan := range r.plans {
		if other != member {
			uses = append(uses, plan...)
		}
	}
	return uses
}

// Allocation returns what is reserved for a claim of the group, nil if nothing is.
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

// Victims returns the pods that are still gone for a member: kube-scheduler puts back all that it can do with.
func (r *GroupRun[Member]) Victims(member types.UID) []*v1.Pod {
	return slices.Collect(maps.Values(r.worlds[member].gone))
}
