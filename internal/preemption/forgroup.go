package preemption

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/podstatus"
)

// PreemptForGroup is PodGroupPostFilter for a PodGroup of the API. Of gangs of scheduler-plugins, of which upstream does not know,
// no pod is evicted that others of the same or a higher priority need; with those that others need, all are, see
// eviction.companions.
func (p *Preemption) PreemptForGroup(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	needed, err := p.neededFrom(util.PodGroupPriority(info.GetPodGroup()))
	if err != nil {
		return nil, podstatus.Failed(fmt.Errorf("look for gangs whose pods are not to be evicted: %w", err))
	}
	p.guarded.needed = needed
	defer func() { p.guarded.needed = nil }()
	return p.PodGroupPostFilter(ctx, state, info, schedule)
}

// neededFrom returns the pods that gangs need some of whose pods have that priority or a higher one.
func (p *Preemption) neededFrom(priority int32) (needed []fwk.PodInfo, err error) {
	nodes, err := p.handle.MutableSnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	gangs := make(map[string][]fwk.PodInfo)
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if key := coscheduling.KeyOf(info.GetPod()); key != "" {
				gangs[key] = append(gangs[key], info)
			}
		}
	}
	for _, members := range gangs {
		if slices.ContainsFunc(members, func(info fwk.PodInfo) bool { return preemption.GetPodPriority(info.GetPod(), nil, nil) >= priority }) {
			needed = append(needed, members[:p.coreOf(members)]...)
		}
	}
	return needed, nil
}

// coreOf sorts the pods of a gang that have nodes, those that were started first before others, and returns how many of the
// first ones the gang needs.
func (p *Preemption) coreOf(members []fwk.PodInfo) int {
	slices.SortStableFunc(members, func(a, b fwk.PodInfo) int {
		return util.GetPodStartTime(a.GetPod()).Compare(util.GetPodStartTime(b.GetPod()).Time)
	})
	return max(0, len(members)-p.gangs.Beyond(members[0].GetPod()))
}

// guardedHandle is a handle with whose snapshot it cannot be tried what would be without pods that are needed.
type guardedHandle struct {
	fwk.Handle
	needed []fwk.PodInfo
}

// MutableSnapshotSharedLister implements fwk.Handle.
func (h *guardedHandle) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	return guardedSnapshot{h.Handle.MutableSnapshotSharedLister(), h.needed}
}

type guardedSnapshot struct {
	fwk.MutableSnapshotSharedLister
	needed []fwk.PodInfo
}

// StartMutations implements fwk.MutableSnapshotSharedLister: as long as it is being tried, those that are needed have the
// highest priority.
func (s guardedSnapshot) StartMutations() error {
	if err := s.MutableSnapshotSharedLister.StartMutations(); err != nil {
		return err
	}
	for _, info := range s.needed {
		pod := info.GetPod().DeepCopy()
		highest := int32(math.MaxInt32)
		pod.Spec.Priority = &highest
		raised, err := framework.NewPodInfo(pod)
		if err == nil {
			err = s.RemovePod(klog.Background(), info.GetPod(), pod.Spec.NodeName)
		}
		if err == nil {
			err = s.AddPod(raised, pod.Spec.NodeName)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("guard pod %s: %w", klog.KObj(pod), err), s.EndMutations())
		}
	}
	return nil
}

// companions returns the pods that go with a victim: those of its gang, if more victims are of that than it can do without. The
// first of these has them as companions.
func (e *eviction) companions(target preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *v1.Pod) []*v1.Pod {
	gang := coscheduling.KeyOf(victim)
	if _, whole := preemptor.(*gangPreemptor); whole || gang == "" {
		return nil // For gangs of scheduler-plugins, that was settled before.
	}
	var mates []*v1.Pod
	for _, other := range target.Victims().Pods {
		if coscheduling.KeyOf(other) == gang && other.DeletionTimestamp == nil { // Nobody evicts who is leaving anyway.
			mates = append(mates, other)
		}
	}
	if len(mates) == 0 || mates[0].UID != victim.UID {
		return nil
	}
	return slices.DeleteFunc(e.gangs.Together(mates)[len(mates):], func(pod *v1.Pod) bool {
		return preemption.GetPodPriority(pod, nil, nil) >= preemptor.Priority()
	})
}
