package binding

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// The scheduler sets up its metrics before it makes plugins.
func init() { schedmetrics.Register() }

func TestStatusOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"success": nil,
		"failure": fmt.Errorf("claim c: %w", ErrFailed),
		"timeout": errors.Join(ErrTimeout),
		"error":   errors.New("lost"),
	} {
		require.Equal(t, want, statusOf(err))
	}
}

// TestMetricsOfClaimsThatAreGone: what is not allocated is not counted.
func TestMetricsOfClaimsThatAreGone(t *testing.T) {
	t.Parallel()
	claims := []*resourceapi.ResourceClaim{{}}
	require.NotPanics(t, func() { observe("p", claims, time.Second, nil) })
}
