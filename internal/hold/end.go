package hold

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// ExpectedRunTimeAnnotation of a pod has its expected run time, as a Go duration such as 90m. Nobody enforces it.
const ExpectedRunTimeAnnotation = "quartermaster-dra.github.io/expected-run-time"

// A Kind is the knowledge about an end. Ends of a later kind count as later.
type Kind byte

const (
	// Known: at End.At, which is near.
	Known Kind = iota
	// Unknown: some time. The pod has run since End.At; of two pods, the one that has run for longer counts as the earlier to end.
	Unknown
	// Distant: at End.At, which is so far away that an unknown end is likely to come before.
	Distant
	// Serving: like Unknown, but the pod ends only when somebody deletes it.
	Serving
	// Never: no pod's end frees the devices.
	Never
)

// distant is the time after which a known end counts as later than an unknown one.
const distant = time.Hour

// An End is when a pod is expected to end, or the last of several pods.
type End struct {
	Kind Kind
	At   time.Time
}

// Compare orders ends by when they are expected.
func (e End) Compare(other End) int {
	return cmp.Or(cmp.Compare(e.Kind, other.Kind), e.At.Compare(other.At))
}

// IsKnown reports whether the end is expected at End.At.
func (e End) IsKnown() bool { return e.Kind == Known || e.Kind == Distant }

// endOf returns the expected end of a pod on a node, or of one that is about to be bound. It runs for the usual time if nothing else is
// known, 0 if nobody knows that.
func endOf(pod *v1.Pod, usual time.Duration, now time.Time) End {
	if podutil.IsPodTerminal(pod) {
		return End{Known, now}
	}
	if pod.DeletionTimestamp != nil { // It includes the grace period.
		return near(pod.DeletionTimestamp.Time, now)
	}
	began := beganAt(pod, now)
	end, known := time.Time{}, false
	expected, err := time.ParseDuration(pod.Annotations[ExpectedRunTimeAnnotation])
	if err != nil || expected <= 0 {
		expected = usual
	}
	if expected > 0 {
		end, known = began.Add(expected), began.Add(expected).After(now) // Otherwise the estimate was wrong.
	}
	if most, limited := longest(pod); limited {
		if limit := began.Add(most); !known || limit.Before(end) {
			end, known = limit, true
		}
	}
	switch {
	case known && end.Sub(now) > distant:
		return End{Distant, end}
	case known:
		return near(end, now)
	case pod.Spec.RestartPolicy == v1.RestartPolicyAlways || pod.Spec.RestartPolicy == "":
		return End{Serving, began}
	}
	return End{Unknown, began}
}

// GoneAt returns when a pod that has its node is gone at the latest, and whether that is certain: somebody enforces it.
func GoneAt(pod *v1.Pod, now time.Time) (time.Time, bool) {
	if podutil.IsPodTerminal(pod) || pod.DeletionTimestamp != nil {
		return endOf(pod, 0, now).At, true
	}
	most, limited := longest(pod)
	switch {
	case pod.Status.StartTime != nil:
		return pod.Status.StartTime.Add(most), limited
	case pod.Spec.NodeName != "":
		return beganAt(pod, now).Add(startsWithin + most), limited
	}
	return now.Add(waitsWithin + startsWithin + most), limited // It is just being bound.
}

// near returns a known end, now if it is past.
func near(at, now time.Time) End {
	if at.Before(now) {
		at = now
	}
	return End{Known, at}
}

// longest returns the longest time that a pod can run, with the time to terminate, and whether there is a limit.
func longest(pod *v1.Pod) (time.Duration, bool) {
	deadline := pod.Spec.ActiveDeadlineSeconds
	if deadline == nil || *deadline < 0 || *deadline > maxSeconds {
		return 0, false
	}
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	if given := pod.Spec.TerminationGracePeriodSeconds; given != nil {
		grace = min(max(*given, 0), maxSeconds)
	}
	return time.Duration(*deadline+grace) * time.Second, true
}

// maxSeconds is a century: longer deadlines are none.
const maxSeconds = 100 * 365 * 24 * 60 * 60

// beganAt returns since when a pod has run, or has had its node: now if it is just being bound, however long it has waited.
func beganAt(pod *v1.Pod, now time.Time) time.Time {
	switch {
	case pod.Status.StartTime != nil:
		return pod.Status.StartTime.Time
	case pod.Spec.NodeName == "":
		return now
	}
	if _, placed := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); placed != nil && placed.Status == v1.ConditionTrue {
		return placed.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// WaitsSince returns since when a pod has been known not to fit; false if it is not known to wait.
func WaitsSince(pod *v1.Pod) (time.Time, bool) {
	_, placed := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	if placed == nil || placed.Status != v1.ConditionFalse || placed.Reason == v1.PodReasonSchedulingGated {
		return time.Time{}, false
	}
	return placed.LastTransitionTime.Time, true
}
