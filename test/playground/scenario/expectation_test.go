package scenario

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

func TestExpectScheduled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		snapshot *Snapshot
		checks   []Check
		want     string
	}{
		"as expected": {
			snapshot: snapshotOf(boundPod("app", "a", "c"), allocatedClaim("c", []string{"gpu-0"}, "a")),
		},
		"without claims": {snapshot: snapshotOf(boundPod("app", "a"))},
		"other apps do not matter": {
			snapshot: snapshotOf(boundPod("app", "a"), waitingPod("other", "b", "no room")),
		},
		"missing pod": {snapshot: snapshotOf(), want: "app app has 0 pods, want 1"},
		"second pod": {
			snapshot: snapshotOf(boundPod("app", "a"), boundPod("app", "b")),
			want:     "app app has 2 pods, want 1",
		},
		"the old pod is going": {
			snapshot: snapshotOf(boundPod("app", "a"), change(boundPod("app", "old"), deleting)),
		},
		"the old pod has failed": {
			snapshot: snapshotOf(boundPod("app", "a"),
				change(boundPod("app", "old"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })),
		},
		"waiting": {
			snapshot: snapshotOf(waitingPod("app", "a", "no room")),
			want:     "pod a is not bound; Unschedulable: no room",
		},
		"claim missing": {
			snapshot: snapshotOf(boundPod("app", "a", "c")),
			want:     "pod a is bound with 0 of its 1 claims in existence",
		},
		"claim not allocated": {
			snapshot: snapshotOf(boundPod("app", "a", "c"),
				change(allocatedClaim("c", nil, "a"), func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil })),
			want: "its claim c is not allocated",
		},
		"claim reserved for another pod": {
			snapshot: snapshotOf(boundPod("app", "a", "c"), allocatedClaim("c", nil, "b")),
			want:     "its claim c is not reserved for it",
		},
		"claim not protected": {
			snapshot: snapshotOf(boundPod("app", "a", "c"),
				change(allocatedClaim("c", nil, "a"), func(c *resourceapi.ResourceClaim) { c.Finalizers = nil })),
			want: "without the finalizer",
		},
		"finished pods need no claims": {
			snapshot: snapshotOf(change(boundPod("app", "a", "c"),
				func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })),
		},
		"failed check": {
			snapshot: snapshotOf(boundPod("app", "a")),
			checks:   []Check{func(*AppPods) error { return errors.New("the check says no") }},
			want:     "the check says no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Scheduled("app", 1, tc.checks...).unmet(tc.snapshot, testDialect)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestExpectWaiting(t *testing.T) {
	t.Parallel()
	const good = "claim ns/c request gpu: 8 devices match, 8 are held by others"
	reason := Reason{Cause: "held", Claim: "c", Request: "gpu", Mentions: []string{"8 devices"}}
	for name, tc := range map[string]struct {
		snapshot *Snapshot
		want     string
	}{
		"as expected":  {snapshot: snapshotOf(waitingPod("app", "a", good))},
		"bound":        {snapshot: snapshotOf(boundPod("app", "a")), want: "pod a is bound to n, want it to wait (held)"},
		"no pod":       {snapshot: snapshotOf(), want: "app app has 0 pods, want 1"},
		"no reason":    {snapshot: snapshotOf(waitingPod("app", "a", "")), want: `its reason is ""`},
		"no claim":     {snapshot: snapshotOf(waitingPod("app", "a", "request gpu: 8 devices, held by others")), want: `with ["claim ns/c"]`},
		"no request":   {snapshot: snapshotOf(waitingPod("app", "a", "claim ns/c: 8 devices, held by others")), want: `with ["request gpu"]`},
		"other cause":  {snapshot: snapshotOf(waitingPod("app", "a", "claim ns/c request gpu: 8 devices tainted")), want: `with ["held by others"]`},
		"no mention":   {snapshot: snapshotOf(waitingPod("app", "a", "claim ns/c request gpu: held by others")), want: `with ["8 devices"]`},
		"from events":  {snapshot: snapshotOf(waitingPod("app", "a", ""), eventAbout("b", "else"), eventAbout("a", good))},
		"other events": {snapshot: snapshotOf(waitingPod("app", "a", ""), eventAbout("b", good)), want: `its reason is ""`},
		"the condition counts, not events": {
			snapshot: snapshotOf(waitingPod("app", "a", "node is full"), eventAbout("a", good)),
			want:     `its reason is "Unschedulable: node is full"`,
		},
		"devices get ready after an earlier attempt failed": {
			snapshot: snapshotOf(waitingPod("app", "a", "node is full"), eventBecause("BindingConditionsPending", "a", good)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Waits("app", 1, reason).unmet(tc.snapshot, testDialect)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestDialectParts(t *testing.T) {
	t.Parallel()
	reason := Reason{Cause: "held", Claim: "c", Request: "gpu", Mentions: []string{"gpu-late"}}
	require.Equal(t, []string{"held by others", "claim ns/c", "request gpu", "gpu-late"}, testDialect.parts("ns", reason))
	generated := Reason{Cause: "held", Entry: "gpu", Request: "gpu"}
	require.Equal(t, []string{"held by others", "claim gpu of the pod", "request gpu"}, testDialect.parts("ns", generated))
	terse := Dialect{Texts: testDialect.Texts}
	require.Equal(t, []string{"held by others", "gpu-late"}, terse.parts("ns", reason))
	require.Equal(t, []string{"held by others"}, terse.parts("ns", generated))
	require.Equal(t, []string{"gpu-late"}, terse.parts("ns", Reason{Cause: "unknown", Mentions: []string{"gpu-late"}}))
	require.Equal(t, []string{"held by others"}, testDialect.Texts["held"], "the dialect is not changed by its use")
}
