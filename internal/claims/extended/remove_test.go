package extended_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/builder/stub"
)

// noControllers stands for a server without claims that controllers allocate.
type noControllers struct{}

func (noControllers) Divide(_ *v1.Pod, all []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, func(*v1.Node) bool, error) {
	return all, nil, nil
}

func (noControllers) FreeOne(*v1.Pod, []*resourceapi.ResourceClaim) (string, error) { return "", nil }

// noAttempts stands for attempts that keep no claims.
type noAttempts struct{ extended.Attempts }

func (noAttempts) Keeps(*resourceapi.ResourceClaim, *v1.Pod) bool { return false }

// TestBoundPodsKeepTheirClaims: a pod whose binding has lost its answer may be bound although the informer does not show it.
// Its claims stay, also if the server cannot say whether it is bound.
func TestBoundPodsKeepTheirClaims(t *testing.T) {
	pod := builder.Pod("p", builder.Using(builder.Uses("c")...))
	pod.UID = "p"
	claim := builder.Claim("c", builder.Request("r", "gpu")).In(pod.Namespace).Allocated("n1", "gpu-0")
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}
	stored := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	require.NoError(t, stored.Add(claim))
	for name, unknown := range map[string]error{"bound": nil, "unknown": errors.New("the server is down")} {
		t.Run(name, func(t *testing.T) {
			bound := pod.DeepCopy()
			bound.Spec.NodeName = "n1"
			client := fake.NewClientset(claim, bound)
			client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return unknown != nil, nil, unknown })
			client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				t.Error("the claim is written")
				return false, nil, nil
			})
			remover := extended.Remover{
				Claims: &podclaims.Claims{Stored: stored, Tracked: stub.NoTracker{}}, Stored: stored, Controllers: noControllers{},
				Writer:   write.New(client, write.Options{}),
				Attempts: noAttempts{},
			}
			waiting := func() map[types.UID]*v1.Pod { return map[types.UID]*v1.Pod{pod.UID: pod} }
			released, err := remover.Release(t.Context(), pod, waiting)
			require.ErrorIs(t, err, unknown)
			require.Empty(t, released)
			removed, err := remover.RemoveMade(t.Context(), pod, []*resourceapi.ResourceClaim{claim}, extended.FitsNowhere)
			require.ErrorIs(t, err, unknown)
			require.False(t, removed)
		})
	}
}
