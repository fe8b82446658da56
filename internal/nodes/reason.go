package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/config"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Reasons begin with the in-tree plugin's text, so that searches and alerts for it find the pods of
// both plugins. A node that could not be judged, for example because a selector failed there,
// counts as a node where claims cannot be allocated. A node where a search gave up does not.
const (
	cannotAllocate = "cannot allocate all claims: "
	invalidPools   = "invalid resource pools were encountered: "
)

// Budget limits the time that an attempt may spend on finding reasons, summed over nodes. Finding
// the cause in large claims can take a while, and most nodes have the same reason.
const Budget = 50 * time.Millisecond

// Reasons collects the reasons of one attempt to schedule a pod. The zero value is ready to use. It
// is safe for concurrent use.
type Reasons struct {
	// Spent is the time spent so far on finding reasons, in nanoseconds.
	Spent atomic.Int64

	mutex sync.Mutex
	told  map[string]bool
}

// most limits the different reasons of an attempt. kube-scheduler puts all of them into one
// message, whatever the number of nodes, and the numbers and devices in them may differ on each
// node.
const most = 16

// MayTell reports whether a reason is among the first different ones, up to most.
func (r *Reasons) MayTell(reason string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.told == nil {
		r.told = make(map[string]bool)
	}
	if len(r.told) < most {
		r.told[reason] = true
	}
	return r.told[reason]
}

// Of explains why a node has no devices for the pod, or why that is unknown. full is false if a
// lack of time or steps shortened the reason.
func (r *Reasons) Of(outcome *allocator.Outcome) (reason string, full bool) {
	if outcome.GaveUp {
		return outcome.Reason() + moreSteps(outcome), false
	}
	reason, full = r.cause(outcome)
	if outcome.InvalidPools {
		return invalidPools + reason, full
	}
	return cannotAllocate + reason, full
}

// cause explains why a node has no devices for the pod, briefly if the attempt's time is used up.
func (r *Reasons) cause(outcome *allocator.Outcome) (cause string, full bool) {
	if time.Duration(r.Spent.Load()) > Budget {
		return outcome.Brief(), false
	}
	start := time.Now()
	defer func() { r.Spent.Add(int64(time.Since(start))) }()
	if reason := outcome.Reason(); r.MayTell(reason) {
		return reason, true
	}
	return outcome.Brief(), false
}

// moreSteps names the plugin argument that would let a search that gave up continue.
func moreSteps(outcome *allocator.Outcome) string {
	argument := "stepBudget"
	if outcome.CommonBudget {
		argument = "attemptStepBudget"
	}
	return fmt.Sprintf("; so does a larger %s among the scheduler's arguments for plugin %s", argument, config.Name)
}

// Brief only says that a node has no devices for the pod.
func Brief(outcome *allocator.Outcome) string { return cannotAllocate + outcome.Brief() }

// OfError explains why claims could not be judged on a node; ctx is the context of the search
// before it was limited to the node. The error only concerns that node: devices elsewhere may be
// usable. The in-tree plugin gives up on the pod as soon as one node has such a problem.
func (r *Reasons) OfError(ctx context.Context, node *v1.Node, err error) string {
	if ctx.Err() != nil {
		// Usually the scheduler has found enough nodes.
		return fmt.Sprintf("told to stop looking for devices: %v", context.Cause(ctx))
	}
	if errors.Is(err, selector.ErrPending) {
		return err.Error()
	}
	klog.FromContext(ctx).V(4).Info("Cannot find out whether a node has devices for a pod", "node", klog.KObj(node), "err", err)
	var onDevice interface {
		error
		OnDevice() string
		WithoutDevice() string
	}
	if errors.As(err, &onDevice) {
		if reason := cannotAllocate + onDevice.OnDevice(); r.MayTell(reason) {
			return reason
		}
		return cannotAllocate + onDevice.WithoutDevice()
	}
	return cannotAllocate + err.Error()
}
