package write

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	wanted := newClaim(protected, withUID("in-memory"), withVersion(""), func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation = newAllocation("gpu-0")
	})
	other := newClaim(reservedFor("other"))
	taken := apierrors.NewAlreadyExists(claimsResource, "gpus")
	forbidden := apierrors.NewForbidden(claimsResource, "gpus", errors.New("exceeded quota"))
	for name, tc := range map[string]struct {
		stored   *resourceapi.ResourceClaim
		faults   []fault
		requests string
		want     *resourceapi.ResourceClaim // nil: an error
		err      func(error) bool
	}{
		"new":              {requests: "create", want: newClaim(protected, withUID("created-uid"), withVersion("1"))},
		"exists":           {stored: other, requests: "create, get", want: other},
		"quota in between": {faults: []fault{{on: "create", err: apierrors.NewConflict(claimsResource, "gpus", errors.New("quota"))}}, requests: "create, create", want: newClaim(protected, withUID("created-uid"), withVersion("1"))},
		"response lost": {
			faults:   []fault{{on: "create", applied: true, err: io.EOF}},
			requests: "create, create, get", want: newClaim(protected, withUID("created-uid"), withVersion("1")),
		},
		"gone when it is looked at": {
			faults:   []fault{{on: "create", err: taken}},
			requests: "create, get, create", want: newClaim(protected, withUID("created-uid"), withVersion("1")),
		},
		"refused": {faults: []fault{{on: "create", err: forbidden}}, requests: "create", err: apierrors.IsForbidden},
		"no answer at all": {
			faults:   always(maxTransients+1, fault{on: "create", err: io.EOF}),
			requests: "create" + strings.Repeat(", create", maxTransients),
			err:      func(err error) bool { return errors.Is(err, ErrOutcomeUnknown) },
		},
		"refused after no answer": {
			faults:   []fault{{on: "create", err: io.EOF}, {on: "create", err: forbidden}},
			requests: "create, create",
			err:      func(err error) bool { return errors.Is(err, ErrOutcomeUnknown) && apierrors.IsForbidden(err) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := startServer(t, tc.stored, tc.faults...)
			w, _ := newTestWriter(client)
			got, err := w.Create(context.Background(), wanted)
			require.Equal(t, tc.requests, strings.Join(s.requests, ", "))
			if tc.err != nil {
				require.ErrorContains(t, err, "train/gpus")
				require.True(t, tc.err(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.Equal(t, "in-memory", string(wanted.UID), "the caller's claim was modified")
		})
	}
}

func TestCreateRefusesClaimsWithoutName(t *testing.T) {
	t.Parallel()
	s, client := startServer(t, nil)
	w, _ := newTestWriter(client)
	_, err := w.Create(context.Background(), newClaim(func(claim *resourceapi.ResourceClaim) { claim.Name, claim.GenerateName = "", "gpus-" }))
	require.ErrorContains(t, err, "without namespace or name")
	require.Empty(t, s.requests)
}

func TestFind(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	s, client := startServer(t, newClaim())
	w, _ := newTestWriter(client)
	claim, err := w.Find(cancelled, "train", "gpus")
	require.NoError(t, err)
	require.Equal(t, newClaim(), claim)
	s.change(removed)
	claim, err = w.Find(cancelled, "train", "gpus")
	require.NoError(t, err)
	require.Nil(t, claim)
	s.faults = []fault{{on: "get", err: io.EOF}}
	_, err = w.Find(cancelled, "train", "gpus")
	require.ErrorIs(t, err, io.EOF)
	require.ErrorContains(t, err, "train/gpus")
}
