package quartermaster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// pod returns what a pod needs, nil if it needs no devices. It returns false if that cannot be planned apart from a scheduling
// cycle: other pods or volumes decide where it can be, or it shares a claim with others that is not allocated.
func (w *holdWorld) pod(pl *Quartermaster, pod *v1.Pod, shared map[types.UID]bool) (*hold.Pod, bool) {
	if nodes.DependsOnPods(pod) || w.lacksVolume(pod) {
		return nil, false
	}
	checked, ok := w.claimsOf(pl, pod)
	if !ok {
		return nil, false
	}
	unallocated := eligibility.Open(checked)
	open := eligibility.Objects(unallocated)
	task := pl.solver.Prepare(open)
	if len(open) == 0 || task.Err() == nil && !task.NeedsDevices() {
		return nil, true
	}
	if task.Err() != nil {
		return nil, false
	}
	for _, claim := range open {
		if shared[claim.UID] {
			return nil, false
		}
		shared[claim.UID] = true
		w.claims[claim.UID] = claim
	}
	ctx := selector.WithBudget(w.ctx, selector.NewBudget(pl.attemptBudget, 0))
	ctx = allocator.WithSteps(ctx, allocator.NewSteps(int(*pl.args.AttemptStepBudget), len(w.state.Free.Nodes())))
	takes := noderesources.Of(pod)
	allocated := slices.DeleteFunc(slices.Clone(checked), func(claim *eligibility.Claim) bool { return claim.Decided() == nil })
	return &hold.Pod{
		UID: pod.UID, Takes: takes, Open: eligibility.UIDs(unallocated), Allocated: eligibility.UIDs(allocated), Kind: kindOf(pod, task, takes, checked),
		Requirements: &heldTask{ctx: ctx, world: w, task: task, claims: checked, open: open, admits: nodes.Admission(klog.FromContext(w.ctx), pod), inventory: w.state.Inventory},
	}, true
}

// heldTask implements hold.Requirements for a pod that waits.
type heldTask struct {
	ctx    context.Context
	world  *holdWorld
	task   *allocator.Task
	claims []*eligibility.Claim
	// open are the claims without an allocation.
	open      []*resourceapi.ResourceClaim
	admits    func(*v1.Node) bool
	inventory *inventory.Store
	// failed is the last error of a search.
	failed error
}

// Admits implements hold.Requirements.
func (t *heldTask) Admits(node *v1.Node) bool {
	_, reason := eligibility.NotOn(node, t.claims)
	return reason == nil && t.admits(node) && eligibility.Admit(node, t.claims)
}

// Solve implements hold.Requirements.
func (t *heldTask) Solve(node *v1.Node, usage ledger.View) []ledger.Use {
	pools := t.inventory.OnNode(node)
	plan, err := preemption.PlanOrError(t.ctx, t.task, t.open, allocator.NodeView{Node: node, Pools: pools, Usage: usage})
	if err != nil {
		t.failed = err
		errors.As(err, &t.world.pending)
	}
	if drawsFromCounters(plan, pools) {
		return nil
	}
	return plan
}

// Wants implements hold.Requirements. A pool that is not complete may be so when devices are searched in it.
func (t *heldTask) Wants(pool *inventory.NodePool, devices ...string) bool {
	return pool.State != inventory.Complete || t.task.Interested(t.ctx, pool, devices...)
}

// drawsFromCounters reports whether a device of a plan draws from shared counters. Such a device is not held: while others still
// use the counters, the pool would count as overdrawn, and nobody would get any of its devices.
func drawsFromCounters(plan []ledger.Use, pools []*inventory.NodePool) bool {
	for _, use := range plan {
		for result := range ledger.Used(use.Allocation) {
			for _, pool := range pools {
				if pool.ID == ledger.PoolOf(result) && len(pool.Consumptions(result.Device)) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// lacksVolume reports whether a PersistentVolumeClaim of a pod is not bound, or does not exist.
func (w *holdWorld) lacksVolume(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume v1.Volume) bool {
		name := ""
		switch {
		case volume.PersistentVolumeClaim != nil:
			name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			name = pod.Name + "-" + volume.Name
		default:
			return false
		}
		claim, err := w.state.volumes.PersistentVolumeClaims(pod.Namespace).Get(name)
		return err != nil || claim.Status.Phase != v1.ClaimBound
	})
}

// claimsOf returns the claims of a pod, including the one for extended resources. It returns false if the pod cannot use one of them
// for now, or if the controller of a driver allocates it.
func (w *holdWorld) claimsOf(pl *Quartermaster, pod *v1.Pod) (checked []*eligibility.Claim, ok bool) {
	claims, backing, controlled, err := pl.needs.Of(pod).Ours()
	if err != nil || controlled {
		return nil, false
	}
	if backing != nil {
		claims = append(slices.Clip(claims), backing)
	}
	rules := pl.rules(nil, nil)
	for _, claim := range claims {
		result, err := rules.Check(pod, claim)
		if err != nil {
			return nil, false
		}
		checked = append(checked, result)
	}
	return checked, true
}

// kindOf returns a text that is equal for pods that the same nodes suit.
func kindOf(pod *v1.Pod, task *allocator.Task, takes noderesources.Resources, claims []*eligibility.Claim) string {
	kind := task.AppendKey(fmt.Appendf(nil, "%v ", takes))
	for _, claim := range claims {
		if claim.Decided() != nil || claim.Nodes != nil {
			kind = append(kind, claim.Object.UID...)
		}
	}
	spec := v1.PodSpec{NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations}
	if affinity := pod.Spec.Affinity; affinity != nil {
		spec.Affinity = &v1.Affinity{NodeAffinity: affinity.NodeAffinity}
	}
	limits, err := json.Marshal(&spec)
	if err != nil {
		return string(pod.UID)
	}
	return string(append(kind, limits...))
}

// Holding implements hold.Cluster.
func (w *holdWorld) Holding(claim types.UID) *hold.Holding {
	if known, found := w.holdings[claim]; found {
		return known
	}
	var found *hold.Holding
	if use := w.state.Ledger.UseOf(claim); use.Allocation != nil {
		found = w.holdingOf(use)
	}
	w.holdings[claim] = found
	return found
}

func (w *holdWorld) holdingOf(use ledger.Use) *hold.Holding {
	pods, others := w.state.served()[0].holders.HeldBy(use)
	if len(pods) == 0 && len(use.InFlight) > 0 {
		pods = w.justBound(use)
	}
	found := &hold.Holding{Use: use}
	switch {
	case others, len(pods) == 0 && len(use.ReservedFor) == 0 && len(use.InFlight) == 0:
		found.End = hold.End{Kind: hold.Never}
		return found
	case len(pods) == 0 && len(use.InFlight) > 0: // Its pods are gone.
		found.End = hold.End{Kind: hold.Unknown, At: w.now}
		return found
	}
	// Without pods, it is about to be deallocated.
	found.End, found.Gone = hold.End{Kind: hold.Known, At: w.now}, w.now
	allKnown := true
	for i, pod := range pods {
		end := w.state.holds.EndOf(pod, w.now)
		if i == 0 || found.End.Compare(end) < 0 {
			found.End = end
		}
		if gone, known := hold.GoneAt(pod, w.now); !known {
			allKnown = false
		} else if gone.After(found.Gone) {
			found.Gone = gone
		}
		if priority := w.priority(pod); i == 0 || priority > found.Highest {
			found.Highest = priority
		}
		found.Pods = append(found.Pods, hold.Runner{Pod: pod.UID, Node: pod.Spec.NodeName, Takes: noderesources.Of(pod)})
	}
	if !allKnown {
		found.Gone = time.Time{}
	}
	return found
}

// justBound returns the pods of a claim whose attempts have just ended, and which the informer does not have on a node yet. If their ends were
// not known for a moment, what is held there would be held elsewhere, and others would get the devices for long.
func (w *holdWorld) justBound(use ledger.Use) []*v1.Pod {
	pods, err := w.state.claims.Users(use.Claim.Namespace, use.Claim.Name)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return !slices.Contains(use.InFlight, pod.UID) })
}
