package quartermaster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (pl *Quartermaster) PreFilterExtensions() fwk.PreFilterExtensions { return pl }

// RemovePod implements fwk.PreFilterExtensions: what if a pod were gone?
func (pl *Quartermaster) RemovePod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return kube.Failed(preemption.RemovePod(cs, removed.GetPod()))
}

// AddPod implements fwk.PreFilterExtensions: what if a pod were there (again)?
func (pl *Quartermaster) AddPod(_ context.Context, cs fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return kube.Failed(preemption.AddPod(cs, added.GetPod()))
}

// searchInDryRun implements searchOn in a dry run. It changes nothing.
func (pl *Quartermaster) searchInDryRun(ctx context.Context, l *look, site allocator.NodeView, search searchFunc) ([]resourceapi.AllocationResult, *fwk.Status) {
	site.Usage = l.dryRun.Usage(pl.reclaimable(l.cycle))
	outcome, err := search(pl.dryRunContext(ctx, l.cycle), site)
	switch {
	case err != nil:
		return nil, unschedulable("%s", l.reasons.OfError(ctx, l.node(), err))
	case !outcome.Fits():
		defer outcome.Release()
		return nil, kube.New(fwk.Unschedulable, nodes.Brief(outcome))
	}
	return outcome.Results, nil
}

// reserveInDryRun implements Reserve in a dry run for the pod's group.
func (pl *Quartermaster) reserveInDryRun(ctx context.Context, c *cycle, d *preemption.DryRun, nodeName string) *fwk.Status {
	if err := c.chooseExtended(nodeName); err != nil {
		return failed(err)
	}
	if c.task == nil {
		return nil
	}
	node, err := pl.nodes.Get(nodeName)
	if err != nil {
		return failed(fmt.Errorf("look for devices on node %s: %w", nodeName, err))
	}
	site := pl.affordableView(c, node)
	site.Usage = d.Usage(pl.reclaimable(c))
	plan := preemption.Plan(pl.dryRunContext(ctx, c), c.task, c.open(), site)
	if plan == nil {
		return kube.New(fwk.Unschedulable, "no devices without pods of lower priority on node "+nodeName)
	}
	c.dryRun.Group().Reserve(c.uid, plan)
	return nil
}

// unreserveInDryRun implements Unreserve in a dry run for the pod's group.
func (c *cycle) unreserveInDryRun() {
	c.dryRun.Group().Unreserve(c.uid)
	c.leaveExtended()
}

// dryRunContext is like filterContext, with a budget of steps of its own, for dry runs.
func (pl *Quartermaster) dryRunContext(ctx context.Context, c *cycle) context.Context {
	return pl.searchContext(allocator.WithSteps(ctx, c.dryRunSteps), c)
}
