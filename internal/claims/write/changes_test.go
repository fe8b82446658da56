package write

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChangesAreTold: each allocation that is stored, and each that is taken away, is told once, whatever happens on
// the way; and nothing else is.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	bind := func(ctx context.Context, w *Writer, claim *resourceapi.ResourceClaim) error {
		_, err := w.Bind(ctx, claim, newAllocation("gpu-0"), consumer("me"))
		return err
	}
	reserve := func(ctx context.Context, w *Writer, claim *resourceapi.ResourceClaim) error {
		_, err := w.Bind(ctx, claim, nil, consumer("me"))
		return err
	}
	release := func(ctx context.Context, w *Writer, claim *resourceapi.ResourceClaim) error {
		_, err := w.Release(ctx, claim, neverBound("me-uid"))
		return err
	}
	unreserve := func(ctx context.Context, w *Writer, claim *resourceapi.ResourceClaim) error {
		_, err := w.Unreserve(ctx, claim, neverBound("me-uid"))
		return err
	}
	deallocate := func(ctx context.Context, w *Writer, claim *resourceapi.ResourceClaim) error {
		_, err := w.Deallocate(ctx, claim, neverBound("me-uid"))
		return err
	}
	abandoned := func(ctx context.Context, w *Writer, claim *resourceapi.ResourceClaim) error {
		_, _, err := w.ReleaseAbandoned(ctx, claim, []Unbound{neverBound("me-uid")})
		return err
	}
	remove := func(ctx context.Context, w *Writer, claim *resourceapi.ResourceClaim) error {
		_, err := w.Remove(ctx, claim, neverBound("me-uid"))
		return err
	}
	mine := newClaim(allocated("gpu-0"), reservedFor("me"))
	shared := newClaim(allocated("gpu-0"), reservedFor("me", "other"))
	lost := func(on string) []fault { return []fault{{on: on, applied: true, err: io.ErrUnexpectedEOF}} }
	never := func(on string) []fault { return []fault{{on: on, err: io.ErrUnexpectedEOF}} }
	for name, tc := range map[string]struct {
		stored *resourceapi.ResourceClaim
		call   func(context.Context, *Writer, *resourceapi.ResourceClaim) error
		faults []fault
		drop   func(*resourceapi.AllocationResult)
		want   string
		fails  bool
	}{
		"allocated":                       {stored: newClaim(), call: bind, want: "allocated gpu-0 at 12"},
		"allocated, answer lost":          {stored: newClaim(), call: bind, faults: lost("update status"), want: "allocated gpu-0 at 12"},
		"allocated, did not arrive":       {stored: newClaim(), call: bind, faults: never("update status"), want: "allocated gpu-0 at 12"},
		"allocated, finalizer lost":       {stored: newClaim(), call: bind, faults: lost("update"), want: "allocated gpu-0 at 12"},
		"allocated, after a conflict":     {stored: newClaim(protected), call: bind, faults: []fault{{on: "update status", before: changed(withDeviceStatus())}}, want: "allocated gpu-0 at 12"},
		"by others, without an answer":    {stored: newClaim(protected), call: bind, faults: []fault{{on: "update status", before: changed(allocated("gpu-1")), err: io.ErrUnexpectedEOF}}, fails: true},
		"refused":                         {stored: newClaim(protected), call: bind, faults: []fault{{on: "update status", err: apierrors.NewForbidden(claimsResource, "gpus", io.EOF)}}, fails: true},
		"by others":                       {stored: newClaim(protected), call: bind, faults: []fault{{on: "update status", before: changed(allocated("gpu-1"))}}, fails: true},
		"the same by others":              {stored: newClaim(protected), call: bind, faults: []fault{{on: "update status", before: changed(allocated("gpu-0"))}}},
		"stored already":                  {stored: mine, call: bind},
		"reserved only":                   {stored: newClaim(allocated("gpu-0")), call: reserve},
		"not stored completely":           {stored: newClaim(), call: bind, drop: func(a *resourceapi.AllocationResult) { a.Devices.Results[0].Request = "dropped" }, want: "allocated gpu-0 at 12, released gpu-0 at 13", fails: true},
		"released":                        {stored: mine, call: release, want: "released gpu-0 at 11"},
		"released, answer lost":           {stored: mine, call: release, faults: lost("update status"), want: "released gpu-0 at 11"},
		"released, late and in conflict":  {stored: mine, call: release, faults: append(never("update status"), fault{on: "update status", before: changed(withoutAllocation)}), want: "released gpu-0 at 11"},
		"released by others":              {stored: mine, call: release, faults: []fault{{on: "update status", before: changed(withoutAllocation)}}},
		"released, others use it":         {stored: shared, call: release},
		"unreserved":                      {stored: mine, call: unreserve},
		"deallocated":                     {stored: mine, call: deallocate, want: "released gpu-0 at 11"},
		"not deallocated":                 {stored: shared, call: deallocate, fails: true},
		"abandoned":                       {stored: mine, call: abandoned, want: "released gpu-0 at 11"},
		"abandoned, and to be deleted":    {stored: newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted), call: abandoned, want: "released gpu-0 at 11"},
		"removed":                         {stored: mine, call: remove, want: "released gpu-0 at 11"},
		"removed, answer lost":            {stored: mine, call: remove, faults: lost("delete"), want: "released gpu-0 at 11"},
		"removed, deleted already":        {stored: newClaim(allocated("gpu-0"), reservedFor("me"), beingDeleted), call: remove, want: "released gpu-0 at 11"},
		"removed by others":               {stored: mine, call: remove, faults: []fault{{on: "delete", before: removed}}},
		"removed, with others' finalizer": {stored: newClaim(allocated("gpu-0"), reservedFor("me"), func(c *resourceapi.ResourceClaim) { c.Finalizers = append(c.Finalizers, "example.com/theirs") }), call: remove, want: "released gpu-0 at 11"},
		"removed without allocation":      {stored: newClaim(protected), call: remove},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := startServer(t, tc.stored, tc.faults...)
			server.drop = tc.drop
			w, _ := newTestWriter(client)
			var told []string
			w.Changed = func(_ context.Context, change Change) {
				verb := "allocated"
				if change.Released {
					verb = "released"
				}
				require.Equal(t, "n1", change.Cause.Node)
				require.Len(t, change.Allocation.Devices.Results, 1)
				told = append(told, fmt.Sprintf("%s %s at %s", verb, change.Allocation.Devices.Results[0].Device, change.Claim.ResourceVersion))
			}
			err := tc.call(Because(t.Context(), Cause{Node: "n1"}), w, tc.stored)
			require.Equal(t, tc.fails, err != nil, "%v", err)
			require.Equal(t, tc.want, strings.Join(told, ", "))
		})
	}
}

// TestCauses: what comes later says why, for the pod and node of before.
func TestCauses(t *testing.T) {
	t.Parallel()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	ctx := Because(t.Context(), Cause{Pod: pod, Node: "n1", Why: "for the pod"})
	require.Equal(t, Cause{Pod: pod, Node: "n1", Why: "because of something else"}, Because(ctx, Cause{Why: "because of something else"}).Value(causeKey{}))
	require.Equal(t, Cause{Pod: pod, Node: "n2", Why: "again"}, Because(ctx, Cause{Node: "n2", Why: "again"}).Value(causeKey{}))
}
