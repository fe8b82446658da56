package write

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
)

// limits are limits by names of claims.
type limits map[string]int

func (l limits) ConsumerLimit(claim *resourceapi.ResourceClaim) int { return l[claim.Name] }

// A server may accept fewer consumers than v1 does.
func TestConsumerLimitOfTheServer(t *testing.T) {
	t.Parallel()
	full := newClaim(allocated("gpu-0"), reservedForMany(32))
	s, client := startServer(t, full)
	w, _ := newTestWriter(client)
	w.Limits = limits{full.Name: 32}
	_, err := w.Bind(context.Background(), full.DeepCopy(), nil, consumer("me"))
	require.ErrorIs(t, err, ErrConsumerLimit)
	require.ErrorContains(t, err, "32 consumers (the limit is 32")
	require.Equal(t, "get", strings.Join(s.requests, ", "), "nothing is written")
}
