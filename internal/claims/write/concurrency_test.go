package write

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// One pod more than fits wants to share a claim, each with the same stale copy. Each
// begins where the one before it has ended, so that a pod is one write, and the pod for
// which there is no place one read.
func TestManyPodsShareAClaim(t *testing.T) {
	t.Parallel()
	claim := newClaim(allocated("gpu-0"))
	s, client := startServer(t, claim)
	w, pauses := newTestWriter(client)
	const pods = resourceapi.ResourceClaimReservedForMaxSize + 1
	errs := make([]error, pods)
	var calls []func()
	for i := range pods {
		calls = append(calls, func() {
			_, errs[i] = w.Bind(context.Background(), claim, nil, consumer(fmt.Sprintf("pod-%d", i)))
		})
	}
	atOnce(t, w, claim.UID, calls...)

	failed := 0
	for i, err := range errs {
		reserved := IsReservedFor(s.claim, types.UID(fmt.Sprintf("pod-%d-uid", i)))
		require.Equal(t, err == nil, reserved, "pod %d, error %v", i, err)
		if err != nil {
			require.ErrorIs(t, err, ErrConsumerLimit)
			failed++
		}
	}
	require.Equal(t, 1, failed)
	uids := sets.New[types.UID]()
	for _, consumer := range s.claim.Status.ReservedFor {
		uids.Insert(consumer.UID)
	}
	require.Len(t, uids, resourceapi.ResourceClaimReservedForMaxSize)
	require.Equal(t, append(slices.Repeat([]string{"update status"}, pods-1), "get"), s.requests)
	require.Empty(t, *pauses, "nobody else writes, so nobody has to wait")
}

// Pods of several processes, each with its own Writer, come and go at the same
// time. Whatever the order, in the end exactly those are left that did not leave.
func TestSeveralWriters(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	s, client := startServer(t, claim)
	const writers, podsPerWriter = 3, 20
	var wg sync.WaitGroup
	for i := range writers {
		w, _ := newTestWriter(client)
		for j := range podsPerWriter {
			pod := consumer(fmt.Sprintf("pod-%d-%d", i, j))
			wg.Go(func() {
				untilNoWriteConflict(t, func() error {
					bound, err := w.Bind(context.Background(), claim, newAllocation("gpu-0"), pod)
					if err == nil && !IsReservedFor(bound, pod.UID) {
						t.Errorf("%s is not in the returned claim", pod.Name)
					}
					return err
				})
				if j%2 == 1 {
					return
				}
				untilNoWriteConflict(t, func() error {
					_, err := w.Unreserve(context.Background(), claim, neverBound(pod.UID))
					return err
				})
			})
		}
	}
	wg.Wait()

	want, got := sets.New[types.UID](), sets.New[types.UID]()
	for i := range writers {
		for j := 1; j < podsPerWriter; j += 2 {
			want.Insert(consumer(fmt.Sprintf("pod-%d-%d", i, j)).UID)
		}
	}
	for _, consumer := range s.claim.Status.ReservedFor {
		got.Insert(consumer.UID)
	}
	require.Equal(t, want, got)
	require.Len(t, s.claim.Status.ReservedFor, len(want), "no double entries")
	require.True(t, SameAllocation(newAllocation("gpu-0"), s.claim.Status.Allocation))
	s.requireVersioned(t)
}

// untilNoWriteConflict calls f again when it gave up because of too many write conflicts.
func untilNoWriteConflict(t *testing.T, f func() error) {
	for {
		err := f()
		if !apierrors.IsConflict(err) {
			if err != nil {
				t.Errorf("unexpected error: %v", err)
			}
			return
		}
	}
}
