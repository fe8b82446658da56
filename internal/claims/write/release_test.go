package write

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]undoCase{
		"nobody else uses the claim": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me"), withDeviceStatus("gpu-0")),
			requests: "update status, update",
			want:     newClaim(),
		},
		"finalizers of others stay": {
			stored:   newClaim(withFinalizers("example.com/theirs"), allocated("gpu-0"), reservedFor("me")),
			requests: "update status, update",
			want:     newClaim(withFinalizers("example.com/theirs")),
		},
		"others keep the allocation": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("first", "me", "last"), withDeviceStatus("gpu-0")),
			requests: "update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("first", "last"), withDeviceStatus("gpu-0")),
		},
		"others keep the allocation, the own reservation is gone": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other")),
			requests: "get",
			want:     newClaim(allocated("gpu-0"), reservedFor("other")),
		},
		"nobody uses the allocation": {
			stored:   newClaim(allocated("gpu-0")),
			requests: "update status, update",
			want:     newClaim(),
		},
		"somebody joins at the same time": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			faults:   []fault{{on: "update status", before: changed(reservedFor("other"))}},
			requests: "update status, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("other")),
		},
		"the other one leaves at the same time": {
			stored: newClaim(allocated("gpu-0"), reservedFor("other", "me")),
			faults: []fault{{on: "update status", before: func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
				claim.Status.ReservedFor = claim.Status.ReservedFor[1:]
				return claim
			}}},
			requests: "update status, get, update status, update",
			want:     newClaim(),
		},
		"the copy shows a consumer that has left": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("other", "me")),
			requests: "update status, get, update status, update",
			want:     newClaim(),
		},
		"another allocation was not judged": {
			stored:   newClaim(allocated("gpu-1"), reservedFor("me"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get",
			want:     newClaim(allocated("gpu-1"), reservedFor("me")),
		},
		"another allocation for nobody was not judged": {
			stored:   newClaim(allocated("gpu-1"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get",
			want:     newClaim(allocated("gpu-1")),
		},
		"released before, the finalizer stayed": {
			stored:   newClaim(protected, withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get, update",
			want:     newClaim(),
		},
		"released before": {
			stored:   newClaim(withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get",
			want:     newClaim(),
		},
		"a reservation without allocation": {
			// The API server does not permit this state.
			stored:   newClaim(protected, reservedFor("me"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update status, get, update status, update",
			want:     newClaim(),
		},
		"also from a claim that is being deleted": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted),
			requests: "update status, update",
			want:     newClaim(beingDeleted),
		},
		"response lost": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			faults:   []fault{{on: "update status", applied: true, err: io.EOF}},
			requests: "update status, get, update",
			want:     newClaim(),
		},
		"no answer at all": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			faults:   always(maxTransients+1, fault{on: "update status", err: io.EOF}),
			requests: strings.Repeat("update status, get, ", maxTransients) + "update status, get",
			err:      ErrOutcomeUnknown,
			errText:  []string{"gpu-0", "me-uid"},
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
		t.Run(name, tc.run((*Writer).Release))
	}
}

func TestReleaseNeedsToKnowWhat(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim    *resourceapi.ResourceClaim
		consumer types.UID
	}{
		"no claim":      {nil, "me-uid"},
		"no allocation": {newClaim(reservedFor("me")), "me-uid"},
		"no consumer":   {newClaim(allocated("gpu-0")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := startServer(t, newClaim(allocated("gpu-0"), reservedFor("me")))
			w, _ := newTestWriter(client)
			_, err := w.Release(context.Background(), tc.claim, neverBound(tc.consumer))
			require.ErrorContains(t, err, "bug in the caller")
			require.Empty(t, s.requests)
		})
	}
}

// The last consumer of a conflicting allocation clears it, whatever the order.
func TestReleaseByAllConsumers(t *testing.T) {
	t.Parallel()
	claim := newClaim(allocated("gpu-0"), reservedFor("me", "other"))
	s, client := startServer(t, claim)
	w, _ := newTestWriter(client)
	for _, pod := range []types.UID{"me-uid", "other-uid"} {
		require.NotNil(t, s.claim.Status.Allocation)
		_, err := w.Release(context.Background(), claim, neverBound(pod))
		require.NoError(t, err)
	}
	require.Nil(t, s.claim.Status.Allocation)
	require.Empty(t, s.claim.Status.ReservedFor)
}

func TestReleaseOutlivesItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	claim := newClaim(allocated("gpu-0"), reservedFor("me"))
	_, client := startServer(t, claim, fault{on: "update status", err: io.EOF})
	w, _ := newTestWriter(client)
	got, err := w.Release(ctx, claim, neverBound("me-uid"))
	require.NoError(t, err)
	require.Nil(t, got.Status.Allocation)
}

// A write of Release that was held up must not clear what was allocated afterwards,
// and the one of an earlier Bind must not allocate again what Release has cleared.
func TestLateWritesAroundRelease(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	s, client := startServer(t, claim)
	w, _ := newTestWriter(client)
	bound, err := w.Bind(context.Background(), claim, newAllocation("gpu-0"), consumer("me"))
	require.NoError(t, err)
	_, err = w.Release(context.Background(), bound, neverBound("me-uid"))
	require.NoError(t, err)
	require.Nil(t, s.claim.Status.Allocation)
	_, err = w.Bind(context.Background(), s.claim.DeepCopy(), newAllocation("gpu-0"), consumer("other"))
	require.NoError(t, err)

	for i, late := range s.bodies[:4] {
		_, err = s.put(late, map[bool]string{true: "update", false: "update status"}[i == 0 || i == 3])
		require.True(t, apierrors.IsConflict(err), "late write #%d took effect: %v", i, err)
	}
	require.True(t, IsReservedFor(s.claim, "other-uid"))
}
