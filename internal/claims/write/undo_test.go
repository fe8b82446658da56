package write

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// undoCase describes one call of Unreserve or Deallocate for pod "me".
type undoCase struct {
	stored, seen *resourceapi.ResourceClaim // as in bindCase
	faults       []fault
	// allowed replaces "me-uid" if set.
	allowed *types.UID

	requests string
	want     *resourceapi.ResourceClaim // nil: no claim is returned
	err      error
	errText  []string
}

type undoMethod func(*Writer, context.Context, *resourceapi.ResourceClaim, Unbound) (*resourceapi.ResourceClaim, error)

func (tc undoCase) run(method undoMethod) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		seen := tc.seen
		if seen == nil {
			seen = tc.stored.DeepCopy()
		}
		seenBefore := seen.DeepCopy()
		uid := types.UID("me-uid")
		if tc.allowed != nil {
			uid = *tc.allowed
		}
		s, client := startServer(t, tc.stored, tc.faults...)
		w, _ := newTestWriter(client)

		got, err := method(w, context.Background(), seen, neverBound(uid))

		require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
		require.Empty(t, s.faults, "faults that did not happen")
		require.Empty(t, cmp.Diff(seenBefore, seen), "the caller's claim was modified")
		s.requireVersioned(t)
		if tc.err != nil {
			require.ErrorIs(t, err, tc.err)
			for _, text := range append(tc.errText, "train/gpus") {
				require.ErrorContains(t, err, text)
			}
			require.Nil(t, got)
			return
		}
		require.NoError(t, err)
		if tc.want == nil {
			require.Nil(t, got)
			return
		}
		require.Empty(t, cmp.Diff(s.claim, got), "returned claim and stored claim")
		tc.want.ResourceVersion = got.ResourceVersion
		require.Empty(t, cmp.Diff(normalised(tc.want), normalised(got)))
	}
}

// normalised hides the difference between nil and empty lists.
func normalised(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	if len(claim.Status.ReservedFor) == 0 {
		claim.Status.ReservedFor = nil
	}
	if len(claim.Finalizers) == 0 {
		claim.Finalizers = nil
	}
	return claim
}

func TestUnreserve(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]undoCase{
		"others and the allocation stay": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("first", "me", "last"), withDeviceStatus("gpu-0")),
			requests: "update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("first", "last"), withDeviceStatus("gpu-0")),
		},
		"the last consumer leaves an allocated claim": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status",
			want:     newClaim(allocated("gpu-0")),
		},
		"also from a claim that is being deleted": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted),
			requests: "update status",
			want:     newClaim(allocated("gpu-0"), beingDeleted),
		},
		"nothing to do": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other")),
			requests: "get",
			want:     newClaim(allocated("gpu-0"), reservedFor("other")),
		},
		"the copy knows nothing of the reservation": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me", "other"), withVersion("12")),
			seen:     newClaim(),
			requests: "get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("other")),
		},
		"the copy shows a reservation that is gone": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			requests: "update status, get",
			want:     newClaim(allocated("gpu-0"), reservedFor("other")),
		},
		"finalizer without allocation is removed": {
			stored:   newClaim(withFinalizers("example.com/theirs"), protected),
			requests: "update",
			want:     newClaim(withFinalizers("example.com/theirs")),
		},
		"another consumer comes at the same time": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			faults:   []fault{{on: "update status", before: changed(reservedFor("other"))}},
			requests: "update status, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("other")),
		},
		"response lost": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			faults:   []fault{{on: "update status", applied: true, err: io.EOF}},
			requests: "update status, get",
			want:     newClaim(allocated("gpu-0"), reservedFor("other")),
		},
		"claim is gone": {
			seen:     newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get",
		},
		"another claim of that name": {
			stored:   newClaim(withUID("other-uid"), allocated("gpu-0"), reservedFor("me")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get",
		},
	} {
		t.Run(name, tc.run((*Writer).Unreserve))
	}
}

// The reason for undoing may be that the context was cancelled.
func TestUnreserveOutlivesItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	claim := newClaim(allocated("gpu-0"), reservedFor("me"))
	s, client := startServer(t, claim, fault{on: "update status", err: io.EOF})
	w, _ := newTestWriter(client)
	w.sleep = func(ctx context.Context, d time.Duration) error {
		deadline, ok := ctx.Deadline()
		require.True(t, ok, "undoing must end at some time")
		require.LessOrEqual(t, time.Until(deadline), UndoTimeout)
		return ctx.Err()
	}
	got, err := w.Unreserve(ctx, claim, neverBound("me-uid"))
	require.NoError(t, err)
	require.Empty(t, got.Status.ReservedFor)
	require.Equal(t, "update status, get, update status", strings.Join(s.requests, ", "))
}

// A Bind that was given up as "outcome unknown" must not take effect after
// Unreserve, because the devices are given to others then.
func TestUnreserveStopsLateWrites(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	s, client := startServer(t, claim, always(maxTransients+1, fault{on: "update status", err: io.EOF})...)
	w, _ := newTestWriter(client)
	_, err := w.Bind(context.Background(), claim, newAllocation("gpu-0"), consumer("me"))
	require.ErrorIs(t, err, ErrOutcomeUnknown)
	late := s.bodies[len(s.bodies)-1]
	require.NotNil(t, late.Status.Allocation)

	got, err := w.Unreserve(context.Background(), claim, neverBound("me-uid"))
	require.NoError(t, err)
	require.Nil(t, got.Status.Allocation)

	_, err = s.put(late, "update status")
	require.True(t, apierrors.IsConflict(err), "the late write took effect: %v", err)
}

func TestDeallocate(t *testing.T) {
	t.Parallel()
	nobody := types.UID("")
	unnamed := resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "unnamed"}
	for name, tc := range map[string]undoCase{
		"reserved for nobody": {
			stored:   newClaim(allocated("gpu-0"), withDeviceStatus("gpu-0"), withFinalizers("example.com/theirs"), protected),
			requests: "update status",
			want:     newClaim(withFinalizers("example.com/theirs"), protected),
		},
		"reserved for the pod itself": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me"), withDeviceStatus("gpu-0")),
			requests: "update status",
			want:     newClaim(protected),
		},
		"reserved for another pod": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other")),
			requests: "get",
			err:      ErrInUse,
			errText:  []string{"pods/other", "gpu-0"},
		},
		"reserved for the pod itself and another": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			requests: "get",
			err:      ErrInUse,
			errText:  []string{"pods/other"},
		},
		"nobody is allowed": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			allowed:  &nobody,
			requests: "get",
			err:      ErrInUse,
		},
		"no UID is not a wildcard": {
			stored: newClaim(allocated("gpu-0"), func(claim *resourceapi.ResourceClaim) {
				claim.Status.ReservedFor = append(claim.Status.ReservedFor, unnamed)
			}),
			allowed:  &nobody,
			requests: "get",
			err:      ErrInUse,
		},
		"somebody else comes in between": {
			stored:   newClaim(allocated("gpu-0")),
			faults:   []fault{{on: "update status", before: changed(reservedFor("other"))}},
			requests: "update status, get",
			err:      ErrInUse,
		},
		"somebody else comes and goes": {
			stored:   newClaim(allocated("gpu-0")),
			faults:   []fault{{on: "update status", before: changed(withDeviceStatus("gpu-0"))}},
			requests: "update status, get, update status",
			want:     newClaim(protected),
		},
		"another allocation than the one in the way": {
			stored:   newClaim(allocated("gpu-1"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0")),
			requests: "update status, get",
			err:      ErrAllocatedElsewhere,
			errText:  []string{"gpu-0", "gpu-1"},
		},
		"the copy shows a consumer that has left": {
			stored:   newClaim(allocated("gpu-0"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("other")),
			requests: "get, update status",
			want:     newClaim(protected),
		},
		"not allocated": {
			stored:   newClaim(protected),
			requests: "get",
			want:     newClaim(protected),
		},
		"response lost": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			faults:   []fault{{on: "update status", applied: true, err: io.EOF}},
			requests: "update status, get",
			want:     newClaim(protected),
		},
		"claim is gone": {
			seen:     newClaim(allocated("gpu-0")),
			requests: "update status, get",
		},
		"another claim of that name": {
			stored:   newClaim(withUID("other-uid"), allocated("gpu-0")),
			seen:     newClaim(allocated("gpu-0")),
			requests: "update status, get",
		},
	} {
		t.Run(name, tc.run((*Writer).Deallocate))
	}
}

func TestDeallocateStopsWithItsContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	s, client := startServer(t, newClaim(allocated("gpu-0")))
	w, _ := newTestWriter(client)
	_, err := w.Deallocate(ctx, newClaim(allocated("gpu-0")), neverBound("me-uid"))
	require.ErrorIs(t, err, stop)
	require.Empty(t, s.bodies)
}
