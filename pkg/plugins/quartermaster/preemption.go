package quartermaster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// cyclePreemption is the part of a cycle about the devices that other pods hold or are to get.
type cyclePreemption struct {
	// dryRun is set if the whole attempt is a dry run: for the pod's group, or for planning its gang.
	dryRun *preemption.DryRun
	// dryRunSteps is the budget of searches in dry runs of evictions.
	dryRunSteps *allocator.Steps
	// usage is the usage that the pod must respect: the ledger's, plus devices kept for other pods. kept reports
	// whether any are kept in a pool; it is nil if none are.
	usage ledger.View
	kept  func(inventory.PoolID) bool
	// unplanned are nominated pods that the pod must leave devices to, and it is not known yet which.
	unplanned []preemption.Undecided
	// holds are the holds that the pod must leave alone.
	holds []*hold.Hold
	// against are all holds that the pod must leave alone, also those whose devices are in use.
	against []*hold.Hold
	// lasting are claims that are held for others when their pods have ended: evicting these is of no use.
	lasting []types.UID
	// own are the claims of all pods of the gang that is planned, nil if none is. exempt is nil as well if the gang may start without some of them:
	// a pod must not take what is kept for the claim of one that stays out.
	own, exempt sets.Set[types.UID]
	// reclaimable classifies the claims that are in the way only for now; see Quartermaster.reclaimable.
	reclaimable     *preemption.Reclaimable
	reclaimableOnce sync.Once
	// awaitsRelease is set if a node would fit as soon as claims of pods that have ended are deallocated.
	awaitsRelease atomic.Bool
}

// awaitPlans keeps the pod from the pools of nominated pods whose plans are undecided.
func (c *cyclePreemption) awaitPlans(undecided []preemption.Undecided) {
	if len(undecided) == 0 {
		return
	}
	c.unplanned = undecided
	kept := c.kept
	c.kept = func(pool inventory.PoolID) bool { return kept != nil && kept(pool) || c.unplannedIn(pool) != nil }
}

// unplannedIn returns the nominated pod that may get devices of a pool, nil if there is none.
func (c *cyclePreemption) unplannedIn(pool inventory.PoolID) *preemption.Undecided {
	for i := range c.unplanned {
		if slices.ContainsFunc(c.unplanned[i].Pools, func(of *inventory.NodePool) bool { return of.ID == pool }) {
			return &c.unplanned[i]
		}
	}
	return nil
}

// checkPlanned returns an error if devices of the pools may be those of a nominated pod whose plan is undecided.
func (c *cyclePreemption) checkPlanned(pools []*inventory.NodePool) error {
	for _, pool := range pools {
		if nominee := c.unplannedIn(pool.ID); nominee != nil {
			return nominee
		}
	}
	return nil
}

// reclaimable returns the Reclaimable that says which claims are in the pod's way only for now.
func (pl *Quartermaster) reclaimable(c *cycle) *preemption.Reclaimable {
	c.reclaimableOnce.Do(func() {
		own := slices.Concat(c.lasting, sets.List(c.own), eligibility.UIDs(c.claims))
		c.reclaimable = preemption.NewReclaimable(pl.holders, c.usage, pl.holders.Priority(c.pod.Latest()), own...)
		if plain := c.group == nil && c.dryRun.Group() == nil && c.task != nil && c.extended == nil && !c.scored && len(c.open()) == len(c.claims); plain {
			c.reclaimable.Ask(c.task, c.open()...)
		}
	})
	return c.reclaimable
}

// mayPreempt reports whether other pods may have to be evicted for the pod.
func (pl *Quartermaster) mayPreempt(pod *v1.Pod) bool {
	return podutil.Preempts(pod) && pl.state.priorities.AnyBelow(pl.holders.Priority(pod))
}

// preemptionDelay returns the remaining time for which no pods are evicted for some pods, so many of them starting together; 0 if they may be.
func (pl *Quartermaster) preemptionDelay(together int, pods ...*v1.Pod) time.Duration {
	delay := pl.args.PreemptionDelay.Duration
	if delay == 0 {
		return 0
	}
	now := time.Now()
	begins := make([]time.Time, 0, len(pods))
	for _, pod := range pods {
		begins = append(begins, pl.unfitSince(pod, now))
	}
	slices.SortFunc(begins, time.Time.Compare)
	return max(0, begins[min(max(together, 1), len(begins))-1].Add(delay).Sub(now))
}

// unfitSince returns since when a pod is known not to fit. After a restart only its condition says that. Otherwise that may be older: the pod
// had scheduling gates, or lacked a claim.
func (pl *Quartermaster) unfitSince(pod *v1.Pod, now time.Time) time.Time {
	since, waits := hold.WaitsSince(pod)
	if !waits {
		return now // This is the first attempt.
	}
	if entry := pl.waiting.Get(pod.UID); entry != nil && since.After(pl.state.LeadsSince()) && entry.FirstTried().After(since) {
		return entry.FirstTried()
	}
	return since
}

// delayed returns the reason why no others are evicted for a pod yet.
func (pl *Quartermaster) delayed() string {
	return fmt.Sprintf("no pods are evicted yet: an autoscaler has %s to add a node (preemptionDelay)", pl.args.PreemptionDelay.Duration)
}

// rejection returns the status of a node that has no devices for the pod.
func (pl *Quartermaster) rejection(ctx context.Context, c *cycle, task *allocator.Task, site allocator.NodeView, reason string, certain bool) *fwk.Status {
	if !pl.mayPreempt(c.pod.Latest()) {
		return unschedulable("%s", reason)
	}
	status, awaitsRelease := pl.reclaimable(c).Reject(pl.dryRunContext(ctx, c), site, reason, certain, task,
		func(usage ledger.View) (bool, bool) { return pl.wouldFit(ctx, c, task, site, usage) })
	c.pod.Causes.NoteReclaimable(awaitsRelease, status.Code() == fwk.Unschedulable)
	if awaitsRelease {
		c.awaitsRelease.Store(true)
	}
	return status
}

// wouldFit reports whether the node would have devices with the given usage, and whether that is certain. If the search
// gave up, it may have.
func (pl *Quartermaster) wouldFit(ctx context.Context, c *cycle, task *allocator.Task, site allocator.NodeView, usage ledger.View) (fits, certain bool) {
	site.Usage = usage
	outcome, err := task.Check(pl.dryRunContext(ctx, c), site)
	if err != nil {
		return false, false
	}
	defer outcome.Release()
	return outcome.Fits() || outcome.GaveUp, !outcome.GaveUp
}

// deviceHolders implements preemption.Devices.
type deviceHolders struct{ pl *Quartermaster }

// Elsewhere implements preemption.Devices.
func (d deviceHolders) Elsewhere(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, node *v1.Node) []*v1.Pod {
	c, err := cycleOf(cs)
	if err != nil || c == nil {
		return nil
	}
	return d.holders(ctx, c, node, node.Name)
}

// holders returns the pods of lower priority that hold devices which the pod may get, except pods on the given node, "" for none.
func (d deviceHolders) holders(ctx context.Context, c *cycle, node *v1.Node, except string) []*v1.Pod {
	task, err := d.taskOn(c, node)
	if err != nil || task == nil {
		return nil
	}
	return d.pl.reclaimable(c).Elsewhere(d.pl.dryRunContext(ctx, c), d.pl.state.Inventory.OnNode(node), except, task)
}

// taskOn returns the task for a node of the snapshot, nil if the pod needs no devices there.
func (d deviceHolders) taskOn(c *cycle, node *v1.Node) (*allocator.Task, error) {
	info, err := d.pl.handle.MutableSnapshotSharedLister().NodeInfos().Get(node.Name)
	if err != nil {
		return nil, err
	}
	task, _ := c.taskOn(info)
	return task, nil
}

// Fits implements preemption.Devices.
func (d deviceHolders) Fits(ctx context.Context, cs fwk.CycleState, node *v1.Node, gone map[types.UID]*v1.Pod) bool {
	c, err := cycleOf(cs)
	if err != nil || c == nil {
		return false
	}
	task, err := d.taskOn(c, node)
	if err != nil || task == nil {
		return err == nil
	}
	fits, _ := d.pl.wouldFit(ctx, c, task, d.pl.nodeView(c, node), d.pl.reclaimable(c).Without(gone))
	return fits
}
