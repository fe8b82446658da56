package write

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
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

// TestGroupIsGone: a PodGroup that was deleted, or created again, gets no claim, and another pod of it asks again.
func TestGroupIsGone(t *testing.T) {
	t.Parallel()
	again := existing("gang")
	again.UID = "another"
	for name, there := range map[string][]runtime.Object{"deleted": nil, "created again": {again}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := startServer(t, newClaim(allocated("gpu-0")))
			groups := schedulingapi.SchemeGroupVersion.WithResource("podgroups")
			require.NoError(t, client.Tracker().Delete(groups, "train", "gang"))
			for _, object := range there {
				require.NoError(t, client.Tracker().Create(groups, object, "train"))
			}
			w, _ := newTestWriter(client)
			for range 2 {
				_, err := w.Bind(context.Background(), s.claim.DeepCopy(), nil, podGroup("gang"))
				require.ErrorIs(t, err, ErrConsumerGone)
				require.ErrorContains(t, err, "; found that the server does not have this PodGroup any more; the pod waits until the PodGroup is created again")
			}
		})
	}
}

// TestGroupCannotBeAsked: nothing is bound while nobody knows whether the PodGroup is there.
func TestGroupCannotBeAsked(t *testing.T) {
	t.Parallel()
	s, client := startServer(t, newClaim(allocated("gpu-0")))
	client.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("broken") })
	w, _ := newTestWriter(client)
	_, err := w.Bind(context.Background(), s.claim.DeepCopy(), nil, podGroup("gang"))
	require.EqualError(t, err, "claim train/gpus: find out whether the server still has PodGroup gang: broken")
}
