package commit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestDenied: after a guard has denied a plan, the pod is tried again as soon as the watch shows the
// claim that has the device.
func TestDenied(t *testing.T) {
	t.Parallel()
	for name, shows := range map[string]bool{"shown by the watch": true, "never shown": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				denials := 0
				w.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
					claim := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
					if action.GetSubresource() != "status" || claim.Status.Allocation == nil {
						return false, nil, nil
					}
					denials++
					return true, nil, apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "c",
						errors.New(`admission webhook "claims.quartermaster-dra.github.io" denied the request: claim other holds it by now`))
				})
				attempt := w.reserve(t)
				require.ErrorContains(t, attempt.Commit(t.Context(), "n", nil), "holds it by now")
				attempt.Abort(t.Context())
				require.Equal(t, 1, denials, "the same write is not repeated")
				require.False(t, w.IsReleasing("pod"))
				time.Sleep(deniedWithin / 2)
				require.Zero(t, w.again.Load(), "the same device would be chosen")
				want := 0
				if shows {
					want = 1
					w.storeOther(t)
				}
				time.Sleep(deniedWithin)
				synctest.Wait()
				require.EqualValues(t, want, w.again.Load())
			})
		})
	}
}

// storeOther stores, on the server, another claim's allocation of the device that the attempt has planned.
func (w *world) storeOther(t *testing.T) {
	other := builder.Unsaved("default", builder.Claim("other").Allocated("n", "gpu-0"))
	other.UID = "other"
	_, err := w.client.ResourceV1().ResourceClaims("default").Create(t.Context(), other, metav1.CreateOptions{})
	require.NoError(t, err)
}

// TestLostClaimIsNotJoined: a claim that was allocated before, and is known to have lost, gets no
// reservation, and its allocation is removed.
func TestLostClaimIsNotJoined(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		claims := w.client.ResourceV1().ResourceClaims("default")
		_, err := claims.Create(t.Context(), w.claim(t), metav1.CreateOptions{})
		require.Error(t, err, "it is there; but that has taken version 1002")
		first := builder.Unsaved("default", builder.Claim("first").Allocated("n", "gpu-0"))
		first.UID, first.ResourceVersion = "first", "1002"
		first.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: write.FieldManager, Subresource: "status",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:allocation":{".":{},"f:devices":{".":{},"f:results":{}}}}}`)}}
		require.NoError(t, w.client.Tracker().Add(first)) // Create would record another author.
		claim := w.claim(t)
		claim.Status = builder.Claim("c").Allocated("n", "gpu-0").Status
		claim, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
		require.NoError(t, err)
		w.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
			claim := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
			require.Empty(t, claim.Status.ReservedFor, "it joins")
			return false, nil, nil
		})
		time.Sleep(time.Minute) // By then, drivers have published complete pools.
		attempt := w.Begin(w.pod, &Claim{Object: claim})
		require.ErrorIs(t, attempt.Commit(t.Context(), "n", nil), ErrConflict)
		attempt.Abort(t.Context())
		require.Nil(t, w.claim(t).Status.Allocation)
	})
}

// TestConflictIsTriedAgain: a pod that has yielded looks for another device at once.
func TestConflictIsTriedAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		attempt := w.reserve(t)
		w.storeOther(t)
		require.ErrorIs(t, attempt.Commit(t.Context(), "n", nil), ErrConflict)
		require.Zero(t, w.again.Load(), "not before Unreserve")
		attempt.Abort(t.Context())
		time.Sleep(deniedWithin)
		synctest.Wait()
		require.EqualValues(t, 1, w.again.Load())
		require.Nil(t, w.claim(t).Status.Allocation)
	})
}
