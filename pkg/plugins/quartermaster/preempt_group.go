package quartermaster

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// preemptForGroup lets kube-scheduler choose pods of lower priority to evict for a group, and evict them. The planner
// keeps their devices for the group's pods.
func (pl *Quartermaster) preemptForGroup(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if !pl.preemption.Enabled() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	pods := info.GetUnscheduledPods()
	nominations, leaving := pl.nominated.NominationsOf(pods)
	if pl.awaitReleaseForGroup(state, info) {
		code := fwk.UnschedulableAndUnresolvable
		if nominations != nil {
			code = fwk.Success // Otherwise those pods lose their nominations that would fit already.
		}
		return nominations, kube.New(code, "no pods are evicted: devices become free as soon as claims of pods that have ended are deallocated")
	}
	if leaving {
		return nominations, kube.New(fwk.Success, "waiting for evicted pods to end; the group gets their devices")
	}
	if rest := pl.preemptionDelay(pl.lackingOf(info), pods...); rest > 0 && slices.ContainsFunc(pods, pl.mayPreempt) {
		pl.wakeGroupIn(info, rest)
		return nil, kube.New(fwk.UnschedulableAndUnresolvable, pl.delayed())
	}
	run, err := preemption.NewGroupDryRun(pl.handle, pl.holders)
	if err != nil {
		return nil, failed(err)
	}
	result, status := pl.preemption.PreemptForGroup(ctx, state, info, run.Attempts(schedule))
	if status.IsSuccess() && result != nil {
		pl.nominateGroup(ctx, run, info, result)
	}
	if status.Code() == fwk.Unschedulable {
		// DefaultPreemption, which would run next, would find no more candidates.
		return result, kube.Recoded(fwk.UnschedulableAndUnresolvable, status)
	}
	return result, status
}

// lackingOf returns how many more pods of a group have to start together.
func (pl *Quartermaster) lackingOf(info fwk.PodGroupInfo) int {
	group, manager := info.GetPodGroup(), pl.handle.PodGroupManager()
	if group == nil || manager == nil || group.Spec.SchedulingPolicy.Gang == nil {
		return 1
	}
	lacks := int(group.Spec.SchedulingPolicy.Gang.MinCount)
	if state, err := manager.PodGroupStates().Get(group.Namespace, group.Name); err == nil {
		lacks -= state.ScheduledPodsCount()
	}
	return lacks
}

// wakeGroupIn has a group tried again after some time.
func (pl *Quartermaster) wakeGroupIn(info fwk.PodGroupInfo, d time.Duration) {
	for _, pod := range info.GetUnscheduledPods() {
		if entry := pl.waiting.Get(pod.UID); entry != nil {
			pl.waker.WakeIn(entry, d)
			return // It brings the others along.
		}
	}
}

// awaitReleaseForGroup calls awaitRelease for the pods of a group. It reports whether to wait for that, which is limited to mostForRelease. The
// group is tried again meanwhile: one of the pods may have been unknown until now.
func (pl *Quartermaster) awaitReleaseForGroup(state fwk.PodGroupCycleState, info fwk.PodGroupInfo) (waits bool) {
	pods := info.GetUnscheduledPods()
	if group, err := groupCycleIn(state); err == nil && group != nil {
		for _, pod := range pods {
			if c := group.Member(pod.UID); c != nil && c.awaitsRelease.Load() {
				pl.awaitRelease(c, pod)
				pl.waker.WakeAfterPause(c.pod)
				waits = true
			}
		}
	}
	if !waits && len(pl.nominated.Ended(pods)) > 0 {
		pl.wakeGroupIn(info, queue.FirstPause)
		waits = true
	}
	longest := time.Duration(0)
	for _, pod := range pods {
		if entry := pl.waiting.Get(pod.UID); entry != nil {
			longest = max(longest, entry.AwaitsRelease(waits, time.Now()))
		}
	}
	return waits && longest < mostForRelease
}

// nominateGroup keeps the devices for each pod of a group on its nominated node.
func (pl *Quartermaster) nominateGroup(ctx context.Context, run *preemption.GroupDryRun, info fwk.PodGroupInfo, result *fwk.PodGroupPostFilterResult) {
	own := pl.nominated.OwnClaims(info.GetUnscheduledPods()...)
	for _, pod := range info.GetUnscheduledPods() {
		nominating := result.NominatingInfos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
		cs, dryRun := run.Of(pod.UID)
		if nominating == nil || nominating.NominatedNodeName == "" || cs == nil {
			continue
		}
		c, err := cycleOf(cs)
		if err != nil || c == nil {
			continue
		}
		if status := pl.reserveInDryRun(ctx, c, dryRun, nominating.NominatedNodeName); status.IsSuccess() {
			pl.nominated.Keep(ctx, pod, nominating.NominatedNodeName, append([]ledger.Use{}, run.Planned(pod.UID)...), own, run.Victims(pod.UID))
			c.leaveExtended()
		}
	}
}
