package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Expectation is about the pods of one app in the scenario's namespace.
type Expectation struct {
	// App is the value of the app label.
	App string
	// Pods is the number of pods.
	Pods int
	// Waiting means that none of them is bound; otherwise all of them must be, with their claims allocated and
	// reserved.
	Waiting bool
	// Reason is the reason why they wait.
	Reason Reason
	// Checks are applied to pods that do not wait.
	Checks []Check
}

// Check checks scheduled pods more closely. It returns nil, or an error with the wanted and the actual state.
type Check func(*AppPods) error

// Scheduled expects the pods of an app to be bound and all checks to hold.
func Scheduled(app string, pods int, checks ...Check) Expectation {
	return Expectation{App: app, Pods: pods, Checks: checks}
}

// Waits expects the pods of an app not to be bound, for a reason.
func Waits(app string, pods int, reason Reason) Expectation {
	return Expectation{App: app, Pods: pods, Waiting: true, Reason: reason}
}

// String returns "<n> <app> scheduled" or "<n> <app> waiting (<cause>)".
func (e Expectation) String() string {
	if e.Waiting {
		return fmt.Sprintf("%d × %s waiting (%s)", e.Pods, e.App, e.Reason.Cause)
	}
	return fmt.Sprintf("%d × %s scheduled", e.Pods, e.App)
}

// unmet returns nil if the expectation holds in the snapshot.
func (e Expectation) unmet(snapshot *Snapshot, dialect Dialect) error {
	pods := snapshot.appPods(e.App)
	if len(pods.Members) != e.Pods {
		return fmt.Errorf("app %s has %d pods, want %d", e.App, len(pods.Members), e.Pods)
	}
	var problems []error
	for _, member := range pods.Members {
		if e.Waiting {
			problems = append(problems, e.unmetWaiting(snapshot, member, dialect))
		} else {
			problems = append(problems, member.scheduled())
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, check := range e.Checks {
		problems = append(problems, check(pods))
	}
	return errors.Join(problems...)
}

func (e Expectation) unmetWaiting(snapshot *Snapshot, member Member, dialect Dialect) error {
	pod := member.Pod
	if pod.Spec.NodeName != "" {
		return fmt.Errorf("pod %s is bound to %s, want it to wait (%s)", pod.Name, pod.Spec.NodeName, e.Reason.Cause)
	}
	events := snapshot.eventTexts(pod)
	text := podReason(pod, events)
	parts := dialect.parts(snapshot.Namespace, e.Reason)
	if missing := missingParts(text, parts); len(missing) > 0 {
		if slices.ContainsFunc(events, func(event string) bool { return saysDevicesPrepare(event) && len(missingParts(event, parts)) == 0 }) {
			return nil
		}
		return fmt.Errorf("pod %s waits, its reason is %q, want a text with %q (%s)", pod.Name, text, missing, e.Reason.Cause)
	}
	return nil
}

// saysDevicesPrepare recognizes the event of a pod that waits for the binding conditions of its devices. The condition
// of such a pod still has the reason of an earlier attempt, if there was one.
func saysDevicesPrepare(event string) bool {
	return strings.HasPrefix(event, "BindingConditionsPending: ")
}
