package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
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

// filterWhatIf implements filterUnallocated in the world of a dry run. It changes nothing.
func (pl *Quartermaster) filterWhatIf(ctx context.Context, c *cycle, w *preemption.World, task *allocator.Task, node *v1.Node) *fwk.Status {
	site := pl.nodeView(c, node)
	site.Usage = w.Usage(pl.standing(c))
	outcome, err := task.Check(pl.dryRunContext(ctx, c), site)
	switch {
	case err != nil:
		return unschedulable("%s", c.reasons.OfError(ctx, node, err))
	case !outcome.Fits():
		defer outcome.Release()
		return kube.New(fwk.Unschedulable, nodes.Brief(outcome))
	}
	return nil
}

// dryRunContext is like filterContext, with a budget of steps of its own, for dry runs.
func (pl *Quartermaster) dryRunContext(ctx context.Context, c *cycle) context.Context {
	return pl.searchContext(allocator.WithSteps(ctx, c.dryRunSteps), c)
}
