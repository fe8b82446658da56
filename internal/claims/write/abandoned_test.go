package write

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Pods "me" and "other" are gone.
var bothGone = []Unbound{neverBound("me-uid"), neverBound("other-uid")}

func TestReleaseAbandoned(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(claimsResource, "gpus", errors.New("no"))
	for name, tc := range map[string]struct {
		stored, seen *resourceapi.ResourceClaim // as in bindCase
		faults       []fault
		requests     string
		left         *resourceapi.ResourceClaim // what the server has; nil: gone
		replaced     bool                       // left is another claim
		cleared      bool
		err          func(error) bool
		errText      string
	}{
		"one consumer": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me"), withDeviceStatus("gpu-0")),
			requests: "update status", cleared: true,
			left: newClaim(protected, withVersion("11")),
		},
		"two consumers": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			requests: "update status", cleared: true,
			left: newClaim(protected, withVersion("11")),
		},
		"nobody": {stored: newClaim(allocated("gpu-0")), requests: "update status", cleared: true, left: newClaim(protected, withVersion("11"))},
		"somebody is left": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me", "survivor")), requests: "get",
			left: newClaim(allocated("gpu-0"), reservedFor("me", "survivor")),
			err:  func(err error) bool { return errors.Is(err, ErrInUse) }, errText: "pods/survivor",
		},
		"somebody joins in between": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: []fault{{on: "update status", before: changed(reservedFor("late"))}},
			requests: "update status, get",
			left:     newClaim(allocated("gpu-0"), reservedFor("me", "late"), withVersion("11")),
			err:      func(err error) bool { return errors.Is(err, ErrInUse) }, errText: "pods/late",
		},
		"a driver writes in between": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: []fault{{on: "update status", before: changed(withDeviceStatus("gpu-0"))}},
			requests: "update status, get, update status", cleared: true,
			left: newClaim(protected, withVersion("12")),
		},
		"the controller was first": {
			stored: newClaim(protected, withVersion("12")), seen: newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get",
			left:     newClaim(protected, withVersion("12")),
		},
		"the controller removes some of the consumers in between": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			faults: []fault{{on: "update status", before: func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
				claim.Status.ReservedFor = claim.Status.ReservedFor[1:]
				return claim
			}}},
			requests: "update status, get, update status", cleared: true,
			left: newClaim(protected, withVersion("12")),
		},
		"allocated again, for a pod that is gone, too": {
			stored: newClaim(allocated("gpu-1"), reservedFor("other"), withVersion("14")), seen: newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get",
			left:     newClaim(allocated("gpu-1"), reservedFor("other"), withVersion("14")),
			err:      func(err error) bool { return errors.Is(err, ErrAllocatedElsewhere) }, errText: "gpu-1",
		},
		"being deleted": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted),
			requests: "update status, update", cleared: true,
			left: newClaim(beingDeleted, withVersion("12")),
		},
		"being deleted, and somebody else has a finalizer": {
			stored:   newClaim(withFinalizers("example.com/theirs"), allocated("gpu-0"), reservedFor("me"), beingDeleted),
			requests: "update status, update", cleared: true,
			left: newClaim(withFinalizers("example.com/theirs"), beingDeleted, withVersion("12")),
		},
		"being deleted, and the controller was first": {
			stored: newClaim(protected, beingDeleted, withVersion("12")), seen: newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted),
			requests: "update status, get, update",
			left:     newClaim(beingDeleted, withVersion("13")),
		},
		"deleted in between": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: []fault{{on: "update status", before: changed(beingDeleted)}},
			requests: "update status, get, update status, update", cleared: true,
			left: newClaim(beingDeleted, withVersion("13")),
		},
		"being deleted, and the controller removes the finalizer": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted), faults: []fault{{on: "update", before: removed}},
			requests: "update status, update, get", cleared: true,
		},
		"response lost": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: []fault{{on: "update status", applied: true, err: io.EOF}},
			requests: "update status, get",
			left:     newClaim(protected, withVersion("11")),
		},
		"the server is overloaded": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: []fault{{on: "update status", err: apierrors.NewTooManyRequests("later", 1)}},
			requests: "update status, get, update status", cleared: true,
			left: newClaim(protected, withVersion("11")),
		},
		"no answer at all": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: always(maxTransients+1, fault{on: "update status", err: io.EOF}),
			requests: strings.Repeat("update status, get, ", maxTransients) + "update status, get",
			left:     newClaim(allocated("gpu-0"), reservedFor("me")),
			err:      func(err error) bool { return errors.Is(err, ErrOutcomeUnknown) }, errText: "gpu-0",
		},
		"not allowed": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: []fault{{on: "update status", err: forbidden}}, requests: "update status, get",
			left: newClaim(allocated("gpu-0"), reservedFor("me")), err: apierrors.IsForbidden,
		},
		"not allowed to remove the finalizer": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted), faults: []fault{{on: "update", err: forbidden}},
			requests: "update status, update, get", cleared: true,
			left: newClaim(protected, beingDeleted, withVersion("11")), err: apierrors.IsForbidden,
		},
		"claim is gone": {seen: newClaim(allocated("gpu-0"), reservedFor("me")), requests: "update status, get"},
		"another claim of that name": {
			stored: newClaim(withUID("new"), allocated("gpu-0"), reservedFor("me")), seen: newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get", replaced: true,
			left: newClaim(withUID("new"), allocated("gpu-0"), reservedFor("me")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := tc.seen
			if seen == nil {
				seen = tc.stored.DeepCopy()
			}
			seenBefore := seen.DeepCopy()
			s, client := startServer(t, tc.stored, tc.faults...)
			w, _ := newTestWriter(client)
			left, cleared, err := w.ReleaseAbandoned(t.Context(), seen, bothGone)
			require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
			require.Empty(t, s.faults, "faults that did not happen")
			require.Empty(t, cmp.Diff(seenBefore, seen), "the caller's claim was modified")
			s.requireVersioned(t)
			require.Empty(t, cmp.Diff(tc.left, s.claim, cmpopts.EquateEmpty()))
			require.Equal(t, tc.cleared, cleared)
			if tc.err != nil {
				require.Nil(t, left)
				require.True(t, tc.err(err), "%v", err)
				require.ErrorContains(t, err, "train/gpus")
				require.ErrorContains(t, err, tc.errText)
				return
			}
			require.NoError(t, err)
			if tc.replaced || tc.left == nil {
				require.Nil(t, left)
			} else {
				require.Empty(t, cmp.Diff(tc.left, left, cmpopts.EquateEmpty()))
			}
		})
	}
}

func TestReleaseAbandonedNeedsToKnowWhat(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim *resourceapi.ResourceClaim
		gone  []Unbound
	}{
		"no claim":      {nil, bothGone},
		"no allocation": {newClaim(reservedFor("me")), bothGone},
		"an empty UID":  {newClaim(allocated("gpu-0")), []Unbound{neverBound("me-uid"), neverBound("")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := startServer(t, newClaim(allocated("gpu-0"), reservedFor("me")))
			w, _ := newTestWriter(client)
			_, _, err := w.ReleaseAbandoned(t.Context(), tc.claim, tc.gone)
			require.ErrorContains(t, err, "bug in the caller")
			require.Empty(t, s.requests)
		})
	}
}

func TestReleaseAbandonedStopsWithItsContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	s, client := startServer(t, newClaim(allocated("gpu-0")))
	w, _ := newTestWriter(client)
	_, _, err := w.ReleaseAbandoned(ctx, newClaim(allocated("gpu-0")), bothGone)
	require.ErrorIs(t, err, stop)
	require.Empty(t, s.bodies)
}

// A write of ReleaseAbandoned that was held up does not touch what came afterwards.
func TestLateReleaseAbandoned(t *testing.T) {
	t.Parallel()
	claim := newClaim(allocated("gpu-0"), reservedFor("me"))
	s, client := startServer(t, claim, always(maxTransients+1, fault{on: "update status", err: io.EOF})...)
	w, _ := newTestWriter(client)
	_, _, err := w.ReleaseAbandoned(t.Context(), claim, bothGone)
	require.ErrorIs(t, err, ErrOutcomeUnknown)
	late := s.bodies[0]
	_, err = w.Bind(t.Context(), claim, nil, consumer("late"))
	require.NoError(t, err)
	_, err = s.put(late, "update status")
	require.True(t, apierrors.IsConflict(err), "the late write took effect: %v", err)
}
