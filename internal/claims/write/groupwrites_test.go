package write

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// TestGroupAsksOnce: of those who wait at the same time, one asks the server for all.
func TestGroupAsksOnce(t *testing.T) {
	t.Parallel()
	group := podGroup("gang")
	old := newClaim(allocated("gpu-0"))
	s, client := startServer(t, old)
	w, _ := newTestWriter(client)
	five := func(seen *resourceapi.ResourceClaim) []func() {
		return slices.Repeat([]func(){func() {
			claim, err := w.Bind(context.Background(), seen, nil, group)
			if err != nil || !IsReservedFor(claim, group.UID) {
				t.Errorf("%v, %v", claim, err)
			}
		}}, 5)
	}
	atOnce(t, w, old.UID, five(old)...)
	require.Equal(t, "update status", strings.Join(s.requests, ", "), "the first writes")
	atOnce(t, w, old.UID, five(s.claim.DeepCopy())...)
	require.Equal(t, "update status, get", strings.Join(s.requests, ", "), "the state that they have seen may be old")
}
