package leftover_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/leftover"
)

// TestBoundPodsKeepTheirClaims: a pod whose binding has lost its answer may be bound although the informer does not show it.
// Its claims stay, also if the server cannot say whether it is bound. A write would panic: there is no Writer.
func TestBoundPodsKeepTheirClaims(t *testing.T) {
	pod := builder.Pod("p", builder.Using(builder.Uses("c")...))
	pod.UID = "p"
	claim := builder.Claim("c", builder.Request("r", "gpu")).In(pod.Namespace).Allocated("n1", "gpu-0")
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}
	claims := func(*v1.Pod) ([]*resourceapi.ResourceClaim, error) { return []*resourceapi.ResourceClaim{claim}, nil }
	for name, unknown := range map[string]error{"bound": nil, "unknown": errors.New("the server is down")} {
		t.Run(name, func(t *testing.T) {
			remover := leftover.Remover{
				Claims: claims, Made: claims,
				Split: func(_ *v1.Pod, all []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, func(*v1.Node) bool, error) {
					return all, nil, nil
				},
				FreeOne: func(*v1.Pod, []*resourceapi.ResourceClaim) (string, error) { return "", nil },
				IsBound: func(context.Context, *v1.Pod) (bool, error) { return unknown == nil, unknown },
				Keeps:   func(*resourceapi.ResourceClaim, *v1.Pod) bool { return false },
			}
			waiting := func() map[types.UID]*v1.Pod { return map[types.UID]*v1.Pod{pod.UID: pod} }
			released, err := remover.Release(t.Context(), pod, waiting)
			require.ErrorIs(t, err, unknown)
			require.Empty(t, released)
			removed, err := remover.RemoveMade(t.Context(), pod, []*resourceapi.ResourceClaim{claim})
			require.ErrorIs(t, err, unknown)
			require.False(t, removed)
		})
	}
}
