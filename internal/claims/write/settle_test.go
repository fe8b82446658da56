package write

import (
	"context"
	"io"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	settle := func(w *Writer, ctx context.Context, claim *resourceapi.ResourceClaim, _ Unbound) (*resourceapi.ResourceClaim, error) {
		return w.Settle(ctx, claim)
	}
	for name, tc := range map[string]undoCase{
		"reservations stay": {
			stored:   newClaim(allocated("gpu-0"), reservedFor("me", "other")),
			requests: "get",
			want:     newClaim(allocated("gpu-0"), reservedFor("me", "other")),
		},
		"so does an allocation for nobody": {
			stored:   newClaim(allocated("gpu-0")),
			requests: "get",
			want:     newClaim(allocated("gpu-0")),
		},
		"a write that comes late is stopped": {
			stored:   newClaim(withFinalizers("example.com/theirs"), protected),
			requests: "update",
			want:     newClaim(withFinalizers("example.com/theirs")),
		},
		"a write that came at the same time is found": {
			stored:   newClaim(protected),
			faults:   []fault{{on: "update", before: changed(withAllocation("gpu-0"), reservedFor("me"))}},
			requests: "update, get",
			want:     newClaim(allocated("gpu-0"), reservedFor("me")),
		},
		"response lost": {
			stored:   newClaim(protected),
			faults:   []fault{{on: "update", applied: true, err: io.EOF}},
			requests: "update, get",
			want:     newClaim(),
		},
		"claim is gone": {
			seen:     newClaim(protected),
			requests: "update, get",
		},
	} {
		t.Run(name, tc.run(settle))
	}
}

// withAllocation is allocated for a claim that has the finalizer.
func withAllocation(device string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) { claim.Status.Allocation = newAllocation(device) }
}
