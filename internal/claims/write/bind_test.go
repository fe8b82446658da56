package write

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bindCase describes one call of Bind for pod "me".
type bindCase struct {
	// stored is the server's claim, seen is the caller's copy (default: the same).
	stored, seen *resourceapi.ResourceClaim
	faults       []fault
	allocation   *resourceapi.AllocationResult

	requests string // joined by ", "
	want     *resourceapi.ResourceClaim
	err      error
	// fenced says that the claim gets a FenceAnnotation, which want is without.
	fenced bool
	// errText lists what the error has to mention.
	errText []string
}

func (tc bindCase) run(t *testing.T) {
	t.Parallel()
	seen := tc.seen
	if seen == nil {
		seen = tc.stored.DeepCopy()
	}
	seenBefore, allocationBefore := seen.DeepCopy(), tc.allocation.DeepCopy()
	s, client := startServer(t, tc.stored, tc.faults...)
	w, _ := newTestWriter(client)

	got, err := w.Bind(context.Background(), seen, tc.allocation, consumer("me"))

	require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
	require.Empty(t, s.faults, "faults that did not happen")
	require.Empty(t, cmp.Diff(seenBefore, seen), "the caller's claim was modified")
	require.Empty(t, cmp.Diff(allocationBefore, tc.allocation), "the caller's allocation was modified")
	s.requireVersioned(t)
	if tc.err != nil {
		require.ErrorIs(t, err, tc.err)
		for _, text := range append(tc.errText, "train/gpus", "me-uid") {
			require.ErrorContains(t, err, text)
		}
		require.Nil(t, got)
		return
	}
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(s.claim, got), "returned claim and stored claim")
	require.Equal(t, tc.fenced, got.Annotations[FenceAnnotation] != "")
	tc.want.ResourceVersion, got.Annotations = got.ResourceVersion, nil
	require.Empty(t, cmp.Diff(tc.want, got))
}

func TestBindWrites(t *testing.T) {
	t.Parallel()
	earlier := metav1.NewTime(now.AddDate(0, 0, -1))
	stampedEarlier := func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation.AllocationTimestamp = &earlier
	}
	withTimestamp := newAllocation("gpu-0")
	withTimestamp.AllocationTimestamp = &earlier

	for name, tc := range map[string]bindCase{
		"new claim gets the finalizer, then allocation and reservation at once": {
			stored:     newClaim(withFinalizers("example.com/mine")),
			allocation: newAllocation("gpu-0"),
			requests:   "update, update status",
			want:       newClaim(withFinalizers("example.com/mine"), allocated("gpu-0"), stamped, reservedFor("me")),
		},
		"finalizer left behind by an interrupted attempt": {
			stored:     newClaim(protected),
			allocation: newAllocation("gpu-0"),
			requests:   "update status",
			want:       newClaim(allocated("gpu-0"), stamped, reservedFor("me")),
		},
		"given timestamp is kept": {
			stored:     newClaim(protected),
			allocation: withTimestamp,
			requests:   "update status",
			want:       newClaim(allocated("gpu-0"), stampedEarlier, reservedFor("me")),
		},
		"another consumer of an allocated claim": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other"), withDeviceStatus("gpu-0")),
			requests: "update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("other", "me"), withDeviceStatus("gpu-0")),
		},
		"the existing allocation is the wanted one": {
			stored:     newClaim(allocated("gpu-0"), stampedEarlier, reservedFor("other")),
			allocation: newAllocation("gpu-0"),
			requests:   "update status",
			want:       newClaim(allocated("gpu-0"), stampedEarlier, reservedFor("other", "me")),
		},
		"allocated claim without finalizer gets it": {
			stored:   newClaim(allocated("gpu-0"), withFinalizers()),
			requests: "update, update status",
			want:     newClaim(withFinalizers(), allocated("gpu-0"), reservedFor("me")),
		},
		"only the finalizer is missing, the claim is full": {
			stored:   newClaim(allocated("gpu-0"), withFinalizers(), reservedForMany(255), reservedFor("me")),
			requests: "update",
			want:     newClaim(withFinalizers(), allocated("gpu-0"), reservedForMany(255), reservedFor("me")),
		},
		"only the allocation is missing": {
			// The API server does not permit this state.
			stored:     newClaim(protected, reservedFor("me")),
			allocation: newAllocation("gpu-0"),
			requests:   "update status",
			want:       newClaim(allocated("gpu-0"), stamped, reservedFor("me")),
		},
		"room for one more": {
			stored:   newClaim(allocated("gpu-0"), reservedForMany(255)),
			requests: "update status",
			want:     newClaim(allocated("gpu-0"), reservedForMany(255), reservedFor("me")),
		},
		"copy without version is not used as base": {
			stored:     newClaim(protected),
			seen:       newClaim(protected, withVersion("")),
			allocation: newAllocation("gpu-0"),
			requests:   "get, update status",
			want:       newClaim(allocated("gpu-0"), stamped, reservedFor("me")),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestBindIsIdempotent(t *testing.T) {
	t.Parallel()
	bound := newClaim(allocated("gpu-0"), stamped, reservedFor("other", "me"))
	for name, tc := range map[string]bindCase{
		"resumption with the allocation in the claim": {
			stored:   bound,
			requests: "update",
			want:     bound.DeepCopy(),
			fenced:   true,
		},
		"resumption with the same allocation": {
			stored:     bound,
			allocation: newAllocation("gpu-0"),
			requests:   "update",
			want:       bound.DeepCopy(),
			fenced:     true,
		},
		"written by an earlier attempt, not yet in the caller's cache": {
			stored:     newClaim(allocated("gpu-0"), stamped, reservedFor("me"), withVersion("12")),
			seen:       newClaim(),
			allocation: newAllocation("gpu-0"),
			requests:   "update, get, update",
			want:       newClaim(allocated("gpu-0"), stamped, reservedFor("me")),
			fenced:     true,
		},
		"resumption, response lost": {
			stored:   bound,
			faults:   []fault{{on: "update", applied: true, err: io.EOF}},
			requests: "update, get",
			want:     bound.DeepCopy(),
			fenced:   true,
		},
		"resumption, request lost": {
			stored:   bound,
			faults:   []fault{{on: "update", err: io.EOF}},
			requests: "update, get, update",
			want:     bound.DeepCopy(),
			fenced:   true,
		},
		"resumption while another consumer comes": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me")),
			faults:   []fault{{on: "update", before: changed(reservedFor("other"))}},
			requests: "update, get, update",
			want:     newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			fenced:   true,
		},
		"bound and deleted afterwards": {
			stored:     newClaim(allocated("gpu-0"), stamped, reservedFor("me"), beingDeleted, withVersion("13")),
			seen:       newClaim(protected),
			allocation: newAllocation("gpu-0"),
			requests:   "update status, get",
			want:       newClaim(allocated("gpu-0"), stamped, reservedFor("me"), beingDeleted),
		},
		"the caller's cache still shows a reservation that was undone": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("other"), withVersion("11")),
			seen:     newClaim(allocated("gpu-0"), reservedFor("other", "me")),
			requests: "update, get, update status",
			want:     newClaim(allocated("gpu-0"), reservedFor("other", "me")),
		},
	} {
		t.Run(name, tc.run)
	}
}

func TestBindRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]bindCase{
		"claim is gone": {
			seen:       newClaim(protected),
			allocation: newAllocation("gpu-0"),
			requests:   "update status, get",
			err:        ErrDeleted,
		},
		"claim is being deleted": {
			stored:     newClaim(protected, beingDeleted),
			allocation: newAllocation("gpu-0"),
			requests:   "get",
			err:        ErrDeleted,
			errText:    []string{"being deleted"},
		},
		"another claim of that name": {
			stored:     newClaim(protected, withUID("other-uid"), withVersion("20")),
			seen:       newClaim(protected),
			allocation: newAllocation("gpu-0"),
			requests:   "update status, get",
			err:        ErrReplaced,
			errText:    []string{"other-uid", "claim-uid"},
		},
		"another claim of that name, in the same version": {
			stored:     newClaim(protected, withUID("other-uid")),
			seen:       newClaim(protected),
			allocation: newAllocation("gpu-0"),
			requests:   "update status, get",
			err:        ErrReplaced,
		},
		"somebody else allocated other devices": {
			stored:     newClaim(allocated("gpu-1"), reservedFor("other"), withVersion("11")),
			seen:       newClaim(protected),
			allocation: newAllocation("gpu-0"),
			requests:   "update status, get",
			err:        ErrAllocatedElsewhere,
			errText:    []string{"gpu.example.com/node-a/gpu-0", "gpu.example.com/node-a/gpu-1"},
		},
		"the allocation to share is gone": {
			stored:   newClaim(withVersion("11")),
			seen:     newClaim(allocated("gpu-0")),
			requests: "update status, get",
			err:      ErrDeallocated,
			errText:  []string{"no allocation"},
		},
		"the allocation to share became a different one": {
			stored:   newClaim(allocated("gpu-1"), reservedFor("other"), withVersion("12")),
			seen:     newClaim(allocated("gpu-0")),
			requests: "update status, get",
			err:      ErrDeallocated,
			errText:  []string{"gpu.example.com/node-a/gpu-0", "gpu.example.com/node-a/gpu-1"},
		},
		"neither an allocation to store nor one to share": {
			stored:   newClaim(),
			requests: "get",
			err:      ErrDeallocated,
		},
		"too many consumers": {
			stored:   newClaim(allocated("gpu-0"), reservedForMany(256)),
			requests: "get",
			err:      ErrConsumerLimit,
			errText:  []string{"256"},
		},
	} {
		t.Run(name, tc.run)
	}
}

// Refusals must not be concluded from a stale copy.
func TestBindDoesNotTrustTheCopy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]bindCase{
		"allocated according to the copy, free by now": {
			stored:     newClaim(protected, withVersion("11")),
			seen:       newClaim(allocated("gpu-1")),
			allocation: newAllocation("gpu-0"),
			requests:   "get, update status",
			want:       newClaim(allocated("gpu-0"), stamped, reservedFor("me")),
		},
		"full according to the copy, room by now": {
			stored:   newClaim(allocated("gpu-0"), reservedForMany(7), withVersion("11")),
			seen:     newClaim(allocated("gpu-0"), reservedForMany(256)),
			requests: "get, update status",
			want:     newClaim(allocated("gpu-0"), reservedForMany(7), reservedFor("me")),
		},
	} {
		t.Run(name, tc.run)
	}
}

// Each attempt that finds everything done makes the claim another version, so that
// nothing that was sent before can take effect.
func TestBindFencesEachTime(t *testing.T) {
	t.Parallel()
	claim := newClaim(allocated("gpu-0"), reservedFor("me"))
	s, client := startServer(t, claim)
	w, _ := newTestWriter(client)
	versions := map[string]bool{claim.ResourceVersion: true}
	for range 3 {
		got, err := w.Bind(context.Background(), claim, nil, consumer("me"))
		require.NoError(t, err)
		require.NotContains(t, versions, got.ResourceVersion)
		versions[got.ResourceVersion] = true
		claim = got
	}
	require.Equal(t, "update, update, update", strings.Join(s.requests, ", "))
}

// TestGroupFencesOnce: of the pods of a group, which have one reservation, the first writes and
// the others look, until something may have been taken away.
func TestGroupFencesOnce(t *testing.T) {
	t.Parallel()
	reserved := func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, podGroup("gang"))
	}
	const bind, unreserve, other, elsewhere = "bind", "unreserve another", "bind another group", "somebody writes"
	for name, tc := range map[string]struct {
		stored   *resourceapi.ResourceClaim
		calls    []string
		requests string
	}{
		"allocated by the first":       {newClaim(allocated("gpu-0")), []string{bind, bind, bind}, "update status, get, get"},
		"reserved by a predecessor":    {newClaim(allocated("gpu-0"), reserved), []string{bind, bind, bind}, "update, get, get"},
		"somebody writes in between":   {newClaim(allocated("gpu-0")), []string{bind, elsewhere, bind}, "update status, get"},
		"something may be taken away":  {newClaim(allocated("gpu-0")), []string{bind, unreserve, bind, bind}, "update status, get, update, get"},
		"another group has it as well": {newClaim(allocated("gpu-0")), []string{bind, other, bind}, "update status, update status, update"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := startServer(t, tc.stored)
			w, _ := newTestWriter(client)
			seen := tc.stored.DeepCopy()
			for _, call := range tc.calls {
				var err error
				switch call {
				case bind:
					_, err = w.Bind(context.Background(), seen, nil, podGroup("gang"))
				case other:
					_, err = w.Bind(context.Background(), s.claim.DeepCopy(), nil, podGroup("other"))
				case unreserve:
					_, err = w.Unreserve(context.Background(), seen, neverBound("nobody"))
				case elsewhere:
					s.claim.ResourceVersion = "99"
				}
				require.NoError(t, err)
				seen = s.claim.DeepCopy()
			}
			require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
		})
	}
}

// TestGroupsAtTheSameTime: a caller that waits for its turn profits as well.
func TestGroupsAtTheSameTime(t *testing.T) {
	t.Parallel()
	group := podGroup("gang")
	old := newClaim(allocated("gpu-0"))
	s, client := startServer(t, old)
	w, _ := newTestWriter(client)
	bind := func() {
		if _, err := w.Bind(context.Background(), old, nil, group); err != nil {
			t.Error(err)
		}
	}
	oneWaits(t, w, client, old.UID, bind, bind)
	require.Equal(t, "update status, get", strings.Join(s.requests, ", "))
}

// TestOldFence: a version before has raised the fence under its old name. It goes.
func TestOldFence(t *testing.T) {
	t.Parallel()
	bound := newClaim(allocated("gpu-0"), stamped, reservedFor("other", "me"))
	bound.Annotations = map[string]string{oldFenceAnnotation: "before", "example.com/note": "stays"}
	s, client := startServer(t, bound.DeepCopy())
	w, _ := newTestWriter(client)
	got, err := w.Bind(context.Background(), bound, nil, consumer("me"))
	require.NoError(t, err)
	require.NotEmpty(t, got.Annotations[FenceAnnotation])
	require.NotEqual(t, Fence(bound), Fence(got))
	delete(got.Annotations, FenceAnnotation)
	require.Equal(t, map[string]string{"example.com/note": "stays"}, got.Annotations)
	s.requireVersioned(t)
}
