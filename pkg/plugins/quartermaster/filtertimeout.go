package quartermaster

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// searchContext returns the context for a search on one node that begins now: with the attempt's budget for selectors,
// and with the filter timeout, if there is one.
func (pl *Quartermaster) searchContext(ctx context.Context, c *cycle) context.Context {
	ctx = selector.WithBudget(ctx, c.evaluation)
	if pl.args.FilterTimeout == nil || pl.args.FilterTimeout.Duration == 0 {
		return ctx
	}
	return nodes.After(ctx, pl.args.FilterTimeout.Duration)
}

// filterContext is like searchContext, for one of many nodes that share a budget of steps. The search on the finally
// chosen node does not use it.
func (pl *Quartermaster) filterContext(ctx context.Context, c *cycle) context.Context {
	return pl.searchContext(allocator.WithSteps(ctx, c.steps), c)
}

// isFilterTimeout reports whether a search with a searchContext has ended because of the filter timeout. outer is the
// context that searchContext was given.
func isFilterTimeout(outer context.Context, err error) bool {
	return errors.Is(err, allocator.ErrInterrupted) && outer.Err() == nil
}

// timedOut returns the status for a node where the search has reached the filter timeout. The answer is unknown, so no
// event may ever wake the pod: it is tried again after the usual pause, unless another node fits.
func (pl *Quartermaster) timedOut(ctx context.Context, c *cycle, node *v1.Node) *fwk.Status {
	klog.FromContext(ctx).Info("The search for devices on a node was given up because of the filter timeout",
		"node", klog.KObj(node), "timeout", pl.args.FilterTimeout.Duration)
	c.pod.Causes.Note(reasons.Undecided)
	if c.rejected.CompareAndSwap(false, true) {
		pl.waker.Reject(c.pod)
	}
	pl.waker.Retry(c.pod)
	return unschedulable("it is not known whether there are devices because the search for them was given up after %s (filterTimeout); trying again",
		pl.args.FilterTimeout.Duration)
}
