package preemption

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/preemption"
)

// PreemptForGroup implements PodGroupPostFilter for a PodGroup of the API. Upstream does not know the gangs of
// scheduler-plugins. So PreemptForGroup spares each pod whose gang needs it, if that gang has pods of the same or a
// higher priority. If other gangs lose a pod that they need, eviction.companions evicts the rest.
func (p *Preemption) PreemptForGroup(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	needed, err := p.neededFrom(kube.PodGroupPriority(info.GetPodGroup()))
	if err != nil {
		return nil, kube.Failed(fmt.Errorf("look for gangs whose pods are not to be evicted: %w", err))
	}
	p.guarded.needed = needed
	defer func() { p.guarded.needed = nil }()
	return p.PodGroupPostFilter(ctx, state, info, schedule)
}

// neededFrom returns the pods that gangs need, of all gangs with a pod of the given or a higher priority.
func (p *Preemption) neededFrom(priority int32) (needed []fwk.PodInfo, err error) {
	nodes, err := p.handle.MutableSnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	gangs := make(map[string][]fwk.PodInfo)
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if key := crd.KeyOf(info.GetPod()); key != "" {
				gangs[key] = append(gangs[key], info)
			}
		}
	}
	for _, members := range gangs {
		if slices.ContainsFunc(members, func(info fwk.PodInfo) bool { return corev1helpers.PodPriority(info.GetPod()) >= priority }) {
			needed = append(needed, members[:p.coreOf(members)]...)
		}
	}
	return needed, nil
}

// coreOf sorts the pods of a gang that have nodes by start time, and returns how many of the first ones the gang needs.
func (p *Preemption) coreOf(members []fwk.PodInfo) int {
	slices.SortStableFunc(members, func(a, b fwk.PodInfo) int {
		return kube.PodStartTime(a.GetPod()).Compare(kube.PodStartTime(b.GetPod()).Time)
	})
	return max(0, len(members)-p.gangs.Beyond(members[0].GetPod()))
}

// A guardedHandle is a handle whose snapshot protects needed pods: dry runs of preemption do not remove them.
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

// StartMutations implements fwk.MutableSnapshotSharedLister. Until EndMutations, the needed pods have the highest
// priority.
func (s guardedSnapshot) StartMutations() error {
	if err := s.MutableSnapshotSharedLister.StartMutations(); err != nil {
		return err
	}
	for _, info := range s.needed {
		pod := info.GetPod().DeepCopy()
		highest := int32(math.MaxInt32)
		pod.Spec.Priority = &highest
		raised, err := kube.NewPodInfo(pod)
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

// companions returns the pods of the victim's gang that have to go as well, if the gang loses more pods than it can do
// without. Only the first victim of a gang has companions.
func (e *eviction) companions(target preemption.Candidate, preemptor preemption.Preemptor, victim *v1.Pod) []*v1.Pod {
	gang := crd.KeyOf(victim)
	if _, whole := preemptor.(*gangPreemptor); whole || gang == "" {
		return nil // If a gang preempts, its victims include the companions already.
	}
	var mates []*v1.Pod
	for _, other := range target.Victims().Pods {
		if crd.KeyOf(other) == gang && other.DeletionTimestamp == nil { // Pods that leave need no eviction.
			mates = append(mates, other)
		}
	}
	if len(mates) == 0 || mates[0].UID != victim.UID {
		return nil
	}
	return slices.DeleteFunc(e.gangs.Together(mates)[len(mates):], func(pod *v1.Pod) bool {
		return corev1helpers.PodPriority(pod) >= preemptor.Priority()
	})
}
