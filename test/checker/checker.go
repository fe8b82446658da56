// Package checker verifies from the outside that a cluster with dynamic resource
// allocation is in order. It reads nothing but the Kubernetes API and shares no code
// with the scheduler, so that a mistake there is not repeated here. (Older versions of
// the API are converted by the same package, if the client is one from there.)
//
// It checks the section "What must always hold" of the design: nobody gets a device that somebody else has, no capacity or counter is
// overdrawn, pods run only with the devices that they asked for, nothing is left behind, and no pod waits that would fit. It cannot
// check afterwards whether taints were tolerated, whether selectors matched, and how many devices "all" were at the time of the
// allocation.
package checker

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

// Rule is the name of a rule that can be violated.
type Rule string

// Rules about devices.
const (
	// DeviceHeldTwice: a device has several holders although it can have only
	// one, or the same share of it was handed out twice.
	DeviceHeldTwice Rule = "DeviceHeldTwice"
	// CapacityExceeded: the shares of a device consume more than it has.
	CapacityExceeded Rule = "CapacityExceeded"
	// CounterOverdrawn: the allocated devices of a pool consume more of a shared
	// counter than it has.
	CounterOverdrawn Rule = "CounterOverdrawn"
	// DevicesIncompatible: allocated devices draw from the same counter set without a
	// compatibility group in common.
	DevicesIncompatible Rule = "DevicesIncompatible"
	// DeviceMissing: an allocated device is not published (anymore), or not
	// with the capacities and counters that the rules above need. A warning
	// by default because drivers may withdraw devices at any time.
	DeviceMissing Rule = "DeviceMissing"
)

// Rules about what is in a claim.
const (
	// FinalizerMissing: an allocated claim is not protected against removal.
	FinalizerMissing Rule = "FinalizerMissing"
	// TooManyResults: there are more allocated devices than the API permits.
	TooManyResults Rule = "TooManyResults"
	// RequestNotSatisfied: the allocated devices are not what a request asked for.
	RequestNotSatisfied Rule = "RequestNotSatisfied"
	// ConstraintViolated: the allocated devices do not meet a constraint.
	ConstraintViolated Rule = "ConstraintViolated"
	// ConsumersInvalid: status.reservedFor is too long, has duplicates, or is
	// set without allocation.
	ConsumersInvalid Rule = "ConsumersInvalid"
)

// Rules about pods that run or are about to.
const (
	// PodClaimMissing: a claim of a bound pod does not exist or is not the pod's.
	PodClaimMissing Rule = "PodClaimMissing"
	// PodClaimNotReady: a claim of a bound pod is not allocated or not reserved
	// for the pod.
	PodClaimNotReady Rule = "PodClaimNotReady"
	// PodOnWrongNode: a pod is bound to a node on which its devices are not
	// available.
	PodOnWrongNode Rule = "PodOnWrongNode"
)

// Rules which only have to hold once controllers have caught up.
const (
	// ReservedForGonePod: a claim is reserved for a pod that does not exist or
	// has finished.
	ReservedForGonePod Rule = "ReservedForGonePod"
	// AllocatedForNobody: a claim holds devices, but no pod will use or free
	// them. It is a warning if the claim was not generated for a pod, because
	// somebody may still want to use it.
	AllocatedForNobody Rule = "AllocatedForNobody"
)

// Rules about liveness, which have to hold once nothing happens any more.
const (
	// PodCouldRun: a pod waits although there are a node and devices for it.
	PodCouldRun Rule = "PodCouldRun"
	// GroupCouldRun: a gang waits although there are nodes and devices for as many of its pods as it lacks.
	GroupCouldRun Rule = "GroupCouldRun"
	// HeldForNobody: a pod says that devices are held for a pod or group that is gone.
	HeldForNobody Rule = "HeldForNobody"
	// NotLookedAt: the search whether a pod or a gang could run has reached a bound. It is always a warning.
	NotLookedAt Rule = "NotLookedAt"
)

// Violation is one violation of a rule.
type Violation struct {
	Rule Rule
	// Object is the subject of the message, like "claim train/gpus".
	Object string
	// Message describes the expected and the actual state.
	Message string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: %s", v.Rule, v.Object, v.Message)
}

// Format returns one line per violation.
func Format(violations []Violation) string {
	var b strings.Builder
	for _, violation := range violations {
		fmt.Fprintln(&b, violation)
	}
	return b.String()
}

// Options change what Check does. The zero value is the normal case.
type Options struct {
	// Settled says that nothing is going on in the cluster and that all
	// controllers have caught up. Only then can leftovers be told from work in
	// progress.
	Settled bool
	// StrictDevices makes DeviceMissing a violation, for clusters in which no
	// driver withdraws or changes devices.
	StrictDevices bool
	// Served reports whether a scheduler runs that has to place the pod. With Settled, such a pod must not wait while it could run. Nil:
	// no pod is looked at.
	Served func(*corev1.Pod) bool
	// PodGroups lists the PodGroups of scheduler-plugins, see PodGroupsFrom. Nil: pods with their label are not looked at.
	PodGroups func(context.Context) ([]v1alpha1.PodGroup, error)
	// Warn gets called for findings that are no violations. Nil ignores them.
	Warn func(Violation)
}

// Check lists pods, claims, slices and nodes once (with Served also what upstream's allocator needs) and returns all violations, ordered
// by rule and object.
//
// The lists are not taken at the same instant. A pod which finishes or gets deleted
// during the call may therefore be reported wrongly; use WaitSettled when that can happen.
func Check(ctx context.Context, client kubernetes.Interface, o Options) ([]Violation, error) {
	s, err := takeSnapshot(ctx, client)
	if err != nil {
		return nil, err
	}
	r := &report{options: o}
	checkHolders(r, s)
	checkCapacity(r, s)
	checkCounters(r, s)
	checkCompatibility(r, s)
	checkDevicesExist(r, s)
	for _, claim := range s.claims {
		// Controllers may allocate and protect claims as they like.
		if conversion.AlphaClaimOf(claim).Allocator != conversion.ByController {
			checkProtection(r, claim)
			checkRequests(r, claim)
			checkConstraints(r, s, claim)
		}
		checkConsumers(r, claim)
	}
	for _, pod := range s.pods {
		checkPod(r, s, pod)
	}
	if o.Settled {
		for _, claim := range s.claims {
			checkConsumersExist(r, s, claim)
			checkUsed(r, s, claim)
		}
		if err := checkWaiting(ctx, r, s, client); err != nil {
			return nil, err
		}
	}
	return r.violations, nil
}

// pollInterval is the time between two checks in WaitSettled.
const pollInterval = 250 * time.Millisecond

// WaitSettled calls Check with Options.Settled until there are no violations or the
// context is done. In the latter case it returns the last violations found, and
// an error only if no check has succeeded at all.
func WaitSettled(ctx context.Context, client kubernetes.Interface, o Options) ([]Violation, error) {
	o.Settled = true
	var last []Violation
	checked := false
	for {
		violations, err := Check(ctx, client, o)
		switch {
		case err == nil && len(violations) == 0:
			return nil, nil
		case err == nil:
			last, checked = violations, true
		}
		select {
		case <-ctx.Done():
			if !checked {
				return nil, err
			}
			return last, nil
		case <-time.After(pollInterval):
		}
	}
}

// report collects findings.
type report struct {
	options    Options
	violations []Violation
}

func (r *report) violation(rule Rule, object, format string, args ...any) {
	r.violations = append(r.violations, Violation{Rule: rule, Object: object, Message: fmt.Sprintf(format, args...)})
}

func (r *report) warning(rule Rule, object, format string, args ...any) {
	if r.options.Warn != nil {
		r.options.Warn(Violation{Rule: rule, Object: object, Message: fmt.Sprintf(format, args...)})
	}
}

// missing reports that the published devices do not match an allocation.
func (r *report) missing(object, format string, args ...any) {
	if r.options.StrictDevices {
		r.violation(DeviceMissing, object, format, args...)
		return
	}
	r.warning(DeviceMissing, object, format, args...)
}
