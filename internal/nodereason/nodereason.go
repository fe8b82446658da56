// Package nodereason says in the status of a pod why it cannot have devices on a node, or why that is not known.
package nodereason

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/arguments"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// What the in-tree plugin says about a node comes first in the reasons of ours, so that those
// who search for it, or have alerts for it, find pods of either. A node that could not be
// judged, for instance because a selector failed there, is one where claims cannot be
// allocated; where a search gave up, nobody has found out that they cannot.
const (
	cannotAllocate = "cannot allocate all claims: "
	invalidPools   = "invalid resource pools were encountered: "
)

// Budget is how much time, summed over nodes, an attempt may take to find out why
// nodes have no devices. What is to blame in large claims can take a while to find, and
// most nodes say the same.
const Budget = 50 * time.Millisecond

// Reasons are those of one attempt to schedule a pod. The zero value is ready for use, by several goroutines at once.
type Reasons struct {
	// Spent is how long it took so far to find reasons, in nanoseconds.
	Spent atomic.Int64

	mutex sync.Mutex
	told  map[string]bool
}

// most bounds the different reasons of an attempt. kube-scheduler puts all of them into one message, whatever the number of nodes,
// and the numbers and devices in them may be others on each node.
const most = 16

// mayTell reports whether a reason is among the first ones that differ.
func (r *Reasons) mayTell(reason string) bool {
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

// Of says why there are no devices on a node, or why that is not known. It is full if it says all that there is to
// say: not for want of time or steps.
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

// cause says why there are no devices on a node, in brief if the attempt has no more time for that.
func (r *Reasons) cause(outcome *allocator.Outcome) (cause string, full bool) {
	if time.Duration(r.Spent.Load()) > Budget {
		return outcome.Brief(), false
	}
	start := time.Now()
	defer func() { r.Spent.Add(int64(time.Since(start))) }()
	if reason := outcome.Reason(); r.mayTell(reason) {
		return reason, true
	}
	return outcome.Brief(), false
}

// moreSteps says which argument of the plugin a search that gave up could do with.
func moreSteps(outcome *allocator.Outcome) string {
	argument := "stepBudget"
	if outcome.CommonBudget {
		argument = "attemptStepBudget"
	}
	return fmt.Sprintf("; so does a larger %s among the scheduler's arguments for plugin %s", argument, arguments.Name)
}

// Brief says no more than that there are no devices on a node.
func Brief(outcome *allocator.Outcome) string { return cannotAllocate + outcome.Brief() }

// OfError says why claims could not be judged on a node; ctx is that of the search before it was limited to the node. It
// is that node's alone: elsewhere there may be devices that are no problem. The
// in-tree plugin gives up on the pod as soon as one node has such a problem.
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
		if reason := cannotAllocate + onDevice.OnDevice(); r.mayTell(reason) {
			return reason
		}
		return cannotAllocate + onDevice.WithoutDevice()
	}
	return cannotAllocate + err.Error()
}
