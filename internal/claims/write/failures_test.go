package write

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// transientErrors are failures with unknown outcome.
var transientErrors = map[string]error{
	"cut connection":      io.ErrUnexpectedEOF,
	"request timeout":     context.DeadlineExceeded,
	"server timeout":      apierrors.NewServerTimeout(claimsResource, "update", 0),
	"gateway timeout":     apierrors.NewTimeoutError("etcd", 0),
	"internal error":      apierrors.NewInternalError(errors.New("etcd leader changed")),
	"service unavailable": apierrors.NewServiceUnavailable("starting"),
	"too many requests":   apierrors.NewTooManyRequestsError("slow down"),
	"bad gateway":         apierrors.NewGenericServerResponse(502, "PUT", claimsResource, "gpus", "", 0, true),
}

func TestBindSurvivesChangesOfOthers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]bindCase{
		"another consumer": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other")),
			faults:   []fault{{on: "update status", before: changed(reservedFor("third"))}},
			requests: "update status, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("other", "third", "me")),
		},
		"a driver reports a device": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other")),
			faults:   []fault{{on: "update status", before: changed(withDeviceStatus("gpu-0"))}},
			requests: "update status, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("other", "me"), withDeviceStatus("gpu-0")),
		},
		"a finalizer of somebody else": {
			stored:     newClaim(),
			faults:     []fault{{on: "update", before: changed(withFinalizers("example.com/theirs"))}},
			allocation: newAllocation("gpu-0"),
			requests:   "update, get, update, update status",
			want:       newClaim(withFinalizers("example.com/theirs"), allocated("gpu-0"), stamped, reservedFor("me")),
		},
		"the finalizer is removed again between the two writes": {
			stored:     newClaim(),
			faults:     []fault{{on: "update status", before: changed(withFinalizers())}},
			allocation: newAllocation("gpu-0"),
			requests:   "update, update status, get, update, update status",
			want:       newClaim(allocated("gpu-0"), stamped, reservedFor("me")),
		},
		"deleted between the two writes": {
			stored:     newClaim(),
			faults:     []fault{{on: "update status", before: changed(beingDeleted)}},
			allocation: newAllocation("gpu-0"),
			requests:   "update, update status, get",
			err:        ErrDeleted,
		},
		"gone between write conflict and read": {
			stored:     newClaim(protected),
			faults:     []fault{{on: "update status", before: changed(withDeviceStatus())}, {on: "get", before: removed}},
			allocation: newAllocation("gpu-0"),
			requests:   "update status, get",
			err:        ErrDeleted,
		},
		"the last place is taken": {
			stored:   newClaim(allocated("gpu-0"), reservedForMany(255)),
			faults:   []fault{{on: "update status", before: changed(reservedFor("other"))}},
			requests: "update status, get",
			err:      ErrConsumerLimit,
		},
		"somebody else allocates": {
			stored:     newClaim(protected),
			faults:     []fault{{on: "update status", before: changed(allocated("gpu-1"), reservedFor("other"))}},
			allocation: newAllocation("gpu-0"),
			requests:   "update status, get",
			err:        ErrAllocatedElsewhere,
		},
		"deallocated": {
			stored:   newClaim(allocated("gpu-0")),
			faults:   []fault{{on: "update status", before: changed(withoutAllocation)}},
			requests: "update status, get",
			err:      ErrDeallocated,
		},
	} {
		t.Run(name, tc.run)
	}
}

// A write whose response gets lost is neither an error nor repeated, and one that
// did not arrive is repeated.
func TestBindAfterTransientFailures(t *testing.T) {
	t.Parallel()
	want := newClaim(allocated("gpu-0"), stamped, reservedFor("me"))
	for name, err := range transientErrors {
		for name, tc := range map[string]bindCase{
			name + " after the status update": {
				faults:   []fault{{on: "update status", applied: true, err: err}},
				requests: "update, update status, get",
			},
			name + " instead of the status update": {
				faults:   []fault{{on: "update status", err: err}},
				requests: "update, update status, get, update status",
			},
			name + " after the finalizer update": {
				faults:   []fault{{on: "update", applied: true, err: err}},
				requests: "update, get, update status",
			},
			name + " instead of the finalizer update": {
				faults:   []fault{{on: "update", err: err}},
				requests: "update, get, update, update status",
			},
			name + " also while reading": {
				faults:   []fault{{on: "update status", applied: true, err: err}, {on: "get", err: err}},
				requests: "update, update status, get, get",
			},
		} {
			tc.stored = newClaim()
			tc.allocation = newAllocation("gpu-0")
			tc.want = want.DeepCopy()
			t.Run(name, tc.run)
		}
	}
}

func TestBindGivesUp(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(claimsResource, "gpus", errors.New("no rights"))
	unavailable := apierrors.NewServiceUnavailable("starting")
	conflicting := apierrors.NewConflict(claimsResource, "gpus", errors.New("version"))
	for name, tc := range map[string]struct {
		faults         []fault
		writes         int
		is             func(error) bool
		outcomeUnknown bool
	}{
		"final answer": {
			faults: []fault{{on: "update status", err: forbidden}},
			writes: 1,
			is:     apierrors.IsForbidden,
		},
		"server fails all writes": {
			faults: always(maxTransients+1, fault{on: "update status", err: unavailable}),
			writes: maxTransients + 1,
			is:     apierrors.IsServiceUnavailable,
			// The version in the server stays the same, so each write may
			// still arrive.
			outcomeUnknown: true,
		},
		"server fails the write and all reads": {
			faults:         append(always(maxTransients, fault{on: "get", err: unavailable}), fault{on: "update status", applied: true, err: io.EOF}),
			writes:         1,
			is:             apierrors.IsServiceUnavailable,
			outcomeUnknown: true,
		},
		"write lost, read refused": {
			faults:         []fault{{on: "update status", applied: true, err: io.EOF}, {on: "get", err: forbidden}},
			writes:         1,
			is:             apierrors.IsForbidden,
			outcomeUnknown: true,
		},
		"endless write conflicts": {
			faults: always(maxWriteConflicts+1, fault{on: "update status", err: conflicting}),
			writes: maxWriteConflicts + 1,
			is:     apierrors.IsConflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := newClaim(protected)
			s, client := startServer(t, claim, tc.faults...)
			w, _ := newTestWriter(client)
			got, err := w.Bind(context.Background(), claim, newAllocation("gpu-0"), consumer("me"))
			require.Nil(t, got)
			require.True(t, tc.is(err), "unexpected kind of error: %v", err)
			require.Equal(t, tc.outcomeUnknown, errors.Is(err, ErrOutcomeUnknown), "%v", err)
			require.ErrorContains(t, err, "train/gpus")
			require.Len(t, s.bodies, tc.writes)
			require.Empty(t, s.faults, "faults that did not happen")
			s.requireVersioned(t)
		})
	}
}

// Once the version has moved on, an earlier write cannot take effect anymore.
func TestOutcomeIsKnownAfterVersionChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meanwhile      func(*resourceapi.ResourceClaim) *resourceapi.ResourceClaim
		outcomeUnknown bool
	}{
		"version changed": {meanwhile: changed(withDeviceStatus()), outcomeUnknown: false},
		"same version":    {meanwhile: nil, outcomeUnknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := startServer(t, newClaim(protected),
				fault{on: "update status", err: io.EOF},
				fault{on: "get", before: tc.meanwhile},
				fault{on: "update status", err: apierrors.NewForbidden(claimsResource, "gpus", errors.New("no rights"))},
			)
			w, _ := newTestWriter(client)
			_, err := w.Bind(context.Background(), newClaim(protected), newAllocation("gpu-0"), consumer("me"))
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.Equal(t, tc.outcomeUnknown, errors.Is(err, ErrOutcomeUnknown), "%v", err)
		})
	}
}

func TestStopsWhenContextIsDone(t *testing.T) {
	t.Parallel()
	t.Run("before the first request", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s, client := startServer(t, newClaim(protected))
		w, _ := newTestWriter(client)
		_, err := w.Bind(ctx, newClaim(protected), newAllocation("gpu-0"), consumer("me"))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrOutcomeUnknown)
		require.Empty(t, s.bodies)
	})
	t.Run("after a lost response", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(context.Background())
		s, client := startServer(t, newClaim(protected), fault{on: "update status", applied: true, err: io.EOF})
		w, _ := newTestWriter(client)
		w.sleep = func(ctx context.Context, _ time.Duration) error {
			cancel()
			return sleep(ctx, time.Hour)
		}
		_, err := w.Bind(ctx, newClaim(protected), newAllocation("gpu-0"), consumer("me"))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrOutcomeUnknown)
		require.Equal(t, "update status", strings.Join(s.requests, ", "))
	})
}

func TestPauses(t *testing.T) {
	t.Parallel()
	slowDown := apierrors.NewTooManyRequests("slow down", 7)
	conflicting := apierrors.NewConflict(claimsResource, "gpus", errors.New("version"))
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		faults []fault
		want   []time.Duration
	}{
		"Retry-After is respected": {
			faults: []fault{{on: "update status", err: slowDown}},
			want:   []time.Duration{7 * time.Second},
		},
		"failures wait longer and longer": {
			faults: always(4, fault{on: "update status", err: io.EOF}),
			want:   []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms},
		},
		"the first write conflict costs no time": {
			faults: always(9, fault{on: "update status", err: conflicting}),
			want:   []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 500 * ms, 500 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := newClaim(protected)
			_, client := startServer(t, claim, tc.faults...)
			w, pauses := newTestWriter(client)
			_, err := w.Bind(context.Background(), claim, newAllocation("gpu-0"), consumer("me"))
			require.NoError(t, err)
			require.Equal(t, tc.want, *pauses)
		})
	}
}

func TestBackoffIsJittered(t *testing.T) {
	t.Parallel()
	require.Equal(t, 50*time.Millisecond, backoff(100*time.Millisecond, time.Second, 1, 0))
	require.Equal(t, 150*time.Millisecond, backoff(100*time.Millisecond, time.Second, 1, 1))
	require.Equal(t, time.Second, backoff(100*time.Millisecond, time.Second, 30, 0.5))
	require.Equal(t, time.Second, backoff(100*time.Millisecond, time.Second, 300, 0.5))
}

func TestMistakesOfTheCaller(t *testing.T) {
	t.Parallel()
	s, client := startServer(t, newClaim())
	w, _ := newTestWriter(client)
	ctx := context.Background()
	nobody := consumer("me")
	nobody.UID = ""

	_, err := w.Bind(ctx, nil, newAllocation("gpu-0"), consumer("me"))
	require.ErrorContains(t, err, "bug in the caller")
	_, err = w.Bind(ctx, newClaim(), newAllocation("gpu-0"), nobody)
	require.ErrorContains(t, err, "UID of the consumer")
	_, err = w.Bind(ctx, newClaim(withUID("")), newAllocation("gpu-0"), consumer("me"))
	require.ErrorContains(t, err, `UID ""`)
	_, err = w.Unreserve(ctx, nil, neverBound("me-uid"))
	require.ErrorContains(t, err, "bug in the caller")
	_, err = w.Deallocate(ctx, nil, neverBound("me-uid"))
	require.ErrorContains(t, err, "bug in the caller")
	require.Empty(t, s.requests)
}

// A webhook that reverts what was written must not cause an endless loop.
func TestServerThatForgets(t *testing.T) {
	t.Parallel()
	s, client := startServer(t, newClaim())
	w, _ := newTestWriter(client)
	s.forgetFinalizers = true
	_, err := w.Bind(context.Background(), newClaim(), newAllocation("gpu-0"), consumer("me"))
	require.ErrorContains(t, err, "webhooks")
	require.Equal(t, "update, update", strings.Join(s.requests, ", "))
}

// The default pause ends early when the context is done.
func TestSleep(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	require.ErrorIs(t, sleep(ctx, time.Hour), stop)
	require.NoError(t, sleep(context.Background(), time.Nanosecond))
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, err := range transientErrors {
		require.Equal(t, transient, classify(err), name)
	}
	require.Equal(t, writeConflict, classify(apierrors.NewConflict(claimsResource, "gpus", io.EOF)))
	require.Equal(t, gone, classify(apierrors.NewNotFound(claimsResource, "gpus")))
	for _, err := range []error{
		apierrors.NewForbidden(claimsResource, "gpus", io.EOF),
		apierrors.NewUnauthorized("who?"),
		apierrors.NewBadRequest("what?"),
		apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), "gpus", nil),
		apierrors.NewRequestEntityTooLargeError("large"),
		apierrors.NewMethodNotSupported(claimsResource, "update"),
	} {
		require.Equal(t, final, classify(err), "%v", err)
	}
}
