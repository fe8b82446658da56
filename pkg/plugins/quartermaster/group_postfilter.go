package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// PodGroupPostFilter runs when a group does not fit as a whole (KEP-4671). Like PostFilter it deallocates unused claims
// that are in the way, one for each pod. If it finds none for some pod, and no pod of the group is on a node, it
// releases claims of the group: the results of a failed attempt must not decide where the group goes, nor keep devices
// for it.
//
// If there are no such claims, pods of lower priority may have to go; see preemptForGroup.
//
// After a release it returns UnschedulableAndUnresolvable, so that later PostFilter plugins do not run: they must not
// evict pods for a group that may fit without that. (Success would require nominations.)
func (pl *Quartermaster) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	nothing := fwk.NewStatus(fwk.Unschedulable)
	if info.GetType() == fwk.CompositePodGroupKeyType || len(info.GetUnscheduledPods()) == 0 || pl.isTopologyAware(info) {
		return nil, nothing
	}
	group, err := groupCycleIn(state)
	if err != nil {
		return nil, failed(err)
	}
	if group == nil { // None of the pods has claims.
		return nil, nothing
	}
	freed, stuck, err := pl.freeForMembers(ctx, group, info.GetUnscheduledPods())
	if err != nil {
		return nil, failed(err)
	}
	if stuck && pl.groups != nil {
		ofGroup, err := pl.freeOfGroup(ctx, group, info)
		if err != nil {
			return nil, failed(err)
		}
		freed = append(freed, ofGroup...)
	}
	if len(freed) == 0 {
		if slices.ContainsFunc(info.GetUnscheduledPods(), pl.takeover.Keeps) {
			return nil, kube.New(fwk.UnschedulableAndUnresolvable, "what another process reserved for the group is left alone for now: it may have sent bindings")
		}
		return pl.preemptForGroup(ctx, state, info, schedule)
	}
	return nil, kube.Newf(fwk.UnschedulableAndUnresolvable, "released to find devices elsewhere: claims %s", strings.Join(freed, " "))
}

// isTopologyAware reports whether nodes are chosen for the group as a whole: the reason why its pods do not fit on some
// nodes may then not be the reason why the group does not fit in the cluster.
func (pl *Quartermaster) isTopologyAware(info fwk.PodGroupInfo) bool {
	podGroup := info.GetPodGroup()
	return pl.features.EnableTopologyAwareWorkloadScheduling && podGroup != nil && podGroup.Spec.SchedulingConstraints != nil
}

// freeForMembers deallocates, for each pod, one claim that is allocated where the pod cannot run, or leaves it to other
// pods that wait for it. It returns the names of these claims, and whether it found none for some pod.
func (pl *Quartermaster) freeForMembers(ctx context.Context, group *groupCycle, pods []*v1.Pod) (freed []string, stuck bool, err error) {
	done := sets.New[types.UID]()
	for _, pod := range pods {
		c := group.Member(pod.UID)
		if c == nil {
			stuck = stuck || len(pod.Spec.ResourceClaims) == 0
			continue
		}
		found := false
		for _, podClaim := range c.claims {
			if found = done.Has(podClaim.Object.UID); found {
				break // Another pod uses it as well.
			}
			if found = c.inTheWay(podClaim) && podClaim.Origin == commit.Given && pl.mayLeave(podClaim, pod.UID) &&
				!pl.inUseByGroup(podClaim) && !pl.takeover.FoundReserved(podClaim.Object, pod.UID, pod); !found {
				continue
			}
			done.Insert(podClaim.Object.UID)
			deallocated, err := pl.free(ctx, podClaim, pod, write.OfPod(pod))
			if err != nil {
				return freed, stuck, err
			}
			if deallocated {
				freed = append(freed, klog.KObj(podClaim.Object).String())
			}
			break
		}
		if !found {
			if found, err = pl.removeMade(ctx, c, pod); err != nil {
				return freed, stuck, err
			}
			if found {
				freed = append(freed, fmt.Sprintf("that of pod %s for extended resources", pod.Name))
			}
		}
		// While Filter is undecided, the pod may still fit.
		stuck = stuck || !found && !c.undecided.Load()
	}
	return freed, stuck, nil
}

// inUseByGroup reports whether pods that are being bound use a claim of their group.
func (pl *Quartermaster) inUseByGroup(podClaim *podClaim) bool {
	return podClaim.Group != nil && pl.groups.InUse(podClaim.Object.UID)
}

// freeOfGroup releases one claim of the group that is allocated where one of the pods cannot run, or else all claims
// that are reserved for the group. It does nothing if a pod of the group is on a node or about to be.
func (pl *Quartermaster) freeOfGroup(ctx context.Context, group *groupCycle, info fwk.PodGroupInfo) (freed []string, err error) {
	known, err := pl.handle.PodGroupManager().PodGroupStates().Get(info.GetNamespace(), info.GetName())
	if err != nil {
		return nil, fmt.Errorf("find out whether pods of PodGroup %s/%s are on nodes: %w", info.GetNamespace(), info.GetName(), err)
	}
	podGroup := info.GetPodGroup()
	if podGroup == nil || known.ScheduledPodsCount() > 0 {
		return nil, nil
	}
	for _, pod := range info.GetUnscheduledPods() {
		c := group.Member(pod.UID)
		if c == nil {
			continue
		}
		for _, podClaim := range c.claims {
			if podClaim.Group == nil || !c.inTheWay(podClaim) || !pl.mayLeave(podClaim, podGroup.UID) || pl.inUseByGroup(podClaim) ||
				pl.takeover.FoundReserved(podClaim.Object, podGroup.UID, pod) {
				continue
			}
			if deallocated, err := pl.free(ctx, podClaim, pod, claims.PodGroupReference(podGroup)); err != nil || !deallocated {
				return nil, err
			}
			return []string{klog.KObj(podClaim.Object).String()}, nil
		}
	}
	for _, claim := range claims.ReservedForPodGroup(podGroup, pl.claims.Claim) {
		// Claims in use are being written.
		member := info.GetUnscheduledPods()[0]
		if pl.groups.InUse(claim.UID) || pl.takeover.LeavesAlone(claim.UID, podGroup.UID, member) {
			continue
		}
		unbound, err := pl.writer.Ask(ctx, claim, claims.PodGroupReference(podGroup))
		if err != nil {
			return freed, write.UnlessBound(err)
		}
		cause := write.Cause{Why: "because PodGroup " + podGroup.Name + " does not fit with it"}
		returned, err := pl.writer.Release(write.Because(ctx, cause), claim, unbound)
		if err != nil {
			if errors.Is(err, write.ErrBound) {
				continue
			}
			return freed, fmt.Errorf("release claim %s of a PodGroup that does not fit: %w", klog.KObj(claim), err)
		}
		pl.commits.Observe(ctx, claim, returned)
		freed = append(freed, klog.KObj(claim).String())
	}
	return freed, nil
}
