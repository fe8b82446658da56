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
	"k8s.io/apimachinery/pkg/types"
)

func TestRemove(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(claimsResource, "gpus", errors.New("no"))
	for name, tc := range map[string]struct {
		stored, seen *resourceapi.ResourceClaim
		faults       []fault
		requests     string
		left         *resourceapi.ResourceClaim // nil: gone
		returned     bool                       // left is returned
		err          func(error) bool
	}{
		"not allocated":          {stored: newClaim(), requests: "delete"},
		"allocated and reserved": {stored: newClaim(allocated("gpu-0"), reservedFor("me")), requests: "update, delete"},
		"the copy is stale": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me"), withVersion("12")), seen: newClaim(protected),
			requests: "update, get, update, delete",
		},
		"in use by somebody else": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me", "other")), requests: "get",
			left: newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			err:  func(err error) bool { return errors.Is(err, ErrInUse) },
		},
		"somebody joins before the claim is deleted": {
			stored: newClaim(allocated("gpu-0")), faults: []fault{{on: "delete", before: changed(reservedFor("other"))}},
			requests: "update, delete, get",
			left:     newClaim(allocated("gpu-0"), withFinalizers(), reservedFor("other"), withVersion("12")),
			err:      func(err error) bool { return errors.Is(err, ErrInUse) },
		},
		"gone": {stored: nil, seen: newClaim(), requests: "delete, get"},
		"replaced": {
			stored: newClaim(withUID("new"), reservedFor("other")), seen: newClaim(allocated("gpu-0"), reservedFor("me")),
			requests: "update, get", left: newClaim(withUID("new"), reservedFor("other")),
		},
		"being deleted, and waits for our finalizer": {stored: newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted), requests: "update", left: newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted, withFinalizers(), withVersion("11"))},
		"somebody else has a finalizer": {
			stored: newClaim(allocated("gpu-0"), withFinalizers("example.com/theirs", resourceapi.Finalizer), reservedFor("me")), requests: "update status, update, delete",
			left: newClaim(withFinalizers("example.com/theirs"), beingDeleted, withVersion("13")), returned: true,
		},
		"somebody else has a finalizer on a claim that nobody protects": {
			stored: newClaim(allocated("gpu-0"), withFinalizers("example.com/theirs")), requests: "update status, delete",
			left: newClaim(withFinalizers("example.com/theirs"), beingDeleted, withVersion("12")), returned: true,
		},
		"somebody adds a finalizer before the claim is deleted": {
			stored: newClaim(allocated("gpu-0"), reservedFor("me")), faults: []fault{{on: "delete", before: changed(withFinalizers("example.com/theirs"))}},
			requests: "update, delete, get, update status, delete",
			left:     newClaim(withFinalizers("example.com/theirs"), beingDeleted, withVersion("14")), returned: true,
		},
		"being deleted, and somebody else has a finalizer": {
			stored: newClaim(allocated("gpu-0"), withFinalizers("example.com/theirs"), beingDeleted, reservedFor("me")), requests: "update status",
			left: newClaim(withFinalizers("example.com/theirs"), beingDeleted, withVersion("11")), returned: true,
		},
		"the answer to the deletion got lost":          {stored: newClaim(), faults: []fault{{on: "delete", applied: true, err: io.EOF}}, requests: "delete, get"},
		"the answer to the first write got lost":       {stored: newClaim(protected), faults: []fault{{on: "update", applied: true, err: io.EOF}}, requests: "update, get, delete"},
		"the server is overloaded":                     {stored: newClaim(), faults: []fault{{on: "delete", err: apierrors.NewTooManyRequests("later", 1)}}, requests: "delete, get, delete"},
		"somebody writes the claim at the same moment": {stored: newClaim(), faults: []fault{{on: "delete", before: changed()}}, requests: "delete, get, delete"},
		"not allowed": {
			stored: newClaim(), faults: []fault{{on: "delete", err: forbidden}}, requests: "delete, get",
			left: newClaim(), err: apierrors.IsForbidden,
		},
		"no answer at all": {
			stored: newClaim(), faults: always(maxTransients+1, fault{on: "delete", err: io.EOF}),
			requests: strings.Repeat("delete, get, ", maxTransients) + "delete, get",
			left:     newClaim(), err: func(err error) bool { return errors.Is(err, ErrOutcomeUnknown) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := tc.seen
			if seen == nil {
				seen = tc.stored.DeepCopy()
			}
			s, client := startServer(t, tc.stored, tc.faults...)
			w, _ := newTestWriter(client)
			cancelled, cancel := context.WithCancel(context.Background())
			cancel() // It goes on nevertheless.
			left, err := w.Remove(cancelled, seen, neverBound("me-uid"))
			require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
			require.Empty(t, s.faults, "faults that did not happen")
			s.requireVersioned(t)
			require.Empty(t, cmp.Diff(tc.left, s.claim, cmpopts.EquateEmpty()))
			require.Equal(t, tc.returned, left != nil)
			if tc.err == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "train/gpus")
			require.True(t, tc.err(err), "%v", err)
		})
	}
}

func TestRemoveRefusesMistakes(t *testing.T) {
	t.Parallel()
	s, client := startServer(t, newClaim())
	w, _ := newTestWriter(client)
	for claim, consumer := range map[*resourceapi.ResourceClaim]types.UID{nil: "me-uid", newClaim(): "", newClaim(withUID("")): "me-uid"} {
		_, err := w.Remove(context.Background(), claim, neverBound(consumer))
		require.ErrorContains(t, err, "bug in the caller")
	}
	require.Empty(t, s.requests)
}
