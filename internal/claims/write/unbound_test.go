package write_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func onNode(pod *v1.Pod) { pod.Spec.NodeName = "n1" }

// reserved returns an allocated claim that is reserved for a consumer.
func reserved(consumer resourceapi.ResourceClaimConsumerReference) *resourceapi.ResourceClaim {
	claim := builder.Claim("c", builder.Request("r", "gpu")).Allocated("n1", "gpu-0")
	claim.UID, claim.ResourceVersion = "claim", "1"
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{consumer}
	return claim
}

// TestAsk: nothing can be taken from a pod that is on a node, and the server alone knows whether it is.
func TestAsk(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stored  *v1.Pod
		away    error
		isBound bool
	}{
		"it waits":                            {stored: builder.Pod("p")},
		"it is bound":                         {stored: builder.Pod("p", onNode), isBound: true},
		"it is bound and being deleted":       {stored: builder.Pod("p", onNode, func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }), isBound: true},
		"it is gone":                          {},
		"another pod of that name is bound":   {stored: builder.Pod("p", onNode, func(pod *v1.Pod) { pod.UID = "after" })},
		"another pod is bound":                {stored: builder.Pod("q", onNode)},
		"the server does not answer":          {stored: builder.Pod("p"), away: errors.New("away")},
		"the server does not answer if bound": {stored: builder.Pod("p", onNode), away: errors.New("away")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Pod("p")
			claim := reserved(write.OfPod(pod))
			client := fake.NewClientset(claim)
			if test.stored != nil {
				require.NoError(t, client.Tracker().Add(test.stored))
			}
			client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return test.away != nil, nil, test.away })
			w := write.New(client, write.Options{})
			unbound, err := w.Ask(t.Context(), claim, write.OfPod(pod))
			switch {
			case test.away != nil:
				require.ErrorIs(t, err, test.away)
				require.NotErrorIs(t, err, write.ErrBound)
				require.ErrorContains(t, err, "find out whether pod default/p has been bound")
			case test.isBound:
				require.ErrorIs(t, err, write.ErrBound)
				require.NoError(t, write.UnlessBound(err))
			default:
				require.NoError(t, err)
				require.Equal(t, pod.UID, unbound.Consumer())
				left, err := w.Unreserve(t.Context(), claim, unbound)
				require.NoError(t, err)
				require.Empty(t, left.Status.ReservedFor)
				return
			}
			// What comes with the error is evidence about nobody.
			for _, take := range []func() error{
				func() error { _, err := w.Unreserve(t.Context(), claim, unbound); return err },
				func() error { _, err := w.Release(t.Context(), claim, unbound); return err },
				func() error { _, err := w.Remove(t.Context(), claim, unbound); return err },
				func() error { _, err := w.Deallocate(t.Context(), claim, unbound); return err },
				func() error {
					_, _, err := w.ReleaseAbandoned(t.Context(), claim, []write.Unbound{unbound})
					return err
				},
			} {
				require.Error(t, take())
			}
			stored, err := client.ResourceV1().ResourceClaims(claim.Namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, claim.Status, stored.Status)
		})
	}
}

func podGroup(name string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{APIGroup: schedulingapi.GroupName, Resource: "podgroups", Name: name, UID: types.UID(name)}
}

func member(group, claim, node string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimName: &claim}}
		pod.Spec.NodeName = node
	}
}

// TestAskAboutGroup: a group keeps a claim that one of its pods uses on a node.
func TestAskAboutGroup(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		other *v1.Pod
		bound bool
	}{
		"a member":                {other: builder.Pod("q", member("gang", "c", "n1")), bound: true},
		"a member without a node": {other: builder.Pod("q", member("gang", "c", ""))},
		"a member that has ended": {other: builder.Pod("q", member("gang", "c", "n1"), func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed })},
		"of another group":        {other: builder.Pod("q", member("other", "c", "n1"))},
		"of no group":             {other: builder.Pod("q", member("gang", "c", "n1"), func(pod *v1.Pod) { pod.Spec.SchedulingGroup = nil })},
		"a member, another claim": {other: builder.Pod("q", member("gang", "d", "n1"))},
		"a claim that is not made": {other: builder.Pod("q", member("gang", "c", "n1"), func(pod *v1.Pod) {
			pod.Spec.ResourceClaims[0].ResourceClaimName = nil
			pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = ptr.To("c")
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := reserved(podGroup("gang"))
			w := write.New(fake.NewClientset(claim, builder.Pod("p", member("gang", "c", "")), test.other), write.Options{})
			unbound, err := w.Ask(t.Context(), claim, podGroup("gang"))
			require.Equal(t, test.bound, errors.Is(err, write.ErrBound))
			if test.bound {
				return
			}
			require.NoError(t, err)
			another := reserved(podGroup("gang"))
			another.Name, another.UID = "d", "another"
			_, err = w.Release(t.Context(), another, unbound)
			require.ErrorContains(t, err, "for this claim", "other pods of the group may use the other claim")
		})
	}
	client := fake.NewClientset()
	away := errors.New("away")
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	_, err := write.New(client, write.Options{}).Ask(t.Context(), reserved(podGroup("gang")), podGroup("gang"))
	require.ErrorIs(t, err, away)
	require.ErrorContains(t, err, "pods of PodGroup default/gang")
	_, err = write.New(client, write.Options{}).Ask(t.Context(), reserved(podGroup("gang")), resourceapi.ResourceClaimConsumerReference{APIGroup: "apps", Resource: "deployments", UID: "x"})
	require.ErrorContains(t, err, "neither a pod nor a PodGroup")
}

// TestBoundSinceAsked: the claim has changed since the server was asked, and the pod is bound by now.
func TestBoundSinceAsked(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*write.Writer, *resourceapi.ResourceClaim, write.Unbound) error{
		"Unreserve": func(w *write.Writer, claim *resourceapi.ResourceClaim, unbound write.Unbound) error {
			_, err := w.Unreserve(t.Context(), claim, unbound)
			return err
		},
		"Release": func(w *write.Writer, claim *resourceapi.ResourceClaim, unbound write.Unbound) error {
			_, err := w.Release(t.Context(), claim, unbound)
			return err
		},
		"Deallocate": func(w *write.Writer, claim *resourceapi.ResourceClaim, unbound write.Unbound) error {
			_, err := w.Deallocate(t.Context(), claim, unbound)
			return err
		},
		"Remove": func(w *write.Writer, claim *resourceapi.ResourceClaim, unbound write.Unbound) error {
			_, err := w.Remove(t.Context(), claim, unbound)
			return err
		},
		"ReleaseAbandoned": func(w *write.Writer, claim *resourceapi.ResourceClaim, unbound write.Unbound) error {
			_, _, err := w.ReleaseAbandoned(t.Context(), claim, []write.Unbound{unbound})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Pod("p")
			claim := reserved(write.OfPod(pod))
			client := fake.NewClientset(claim, pod)
			writes := 0
			client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if writes++; writes > 1 {
					return false, nil, nil
				}
				bound := pod.DeepCopy()
				bound.Spec.NodeName = "n1"
				require.NoError(t, client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), bound, pod.Namespace))
				return true, nil, apierrors.NewConflict(resourceapi.Resource("resourceclaims"), claim.Name, errors.New("changed"))
			})
			w := write.New(client, write.Options{})
			unbound, err := w.Ask(t.Context(), claim, write.OfPod(pod))
			require.NoError(t, err)
			require.ErrorIs(t, take(w, claim, unbound), write.ErrBound)
			require.Equal(t, 1, writes)
		})
	}
}

// TestEnded: what is known of a pod for good.
func TestEnded(t *testing.T) {
	t.Parallel()
	runs := v1.ContainerStatus{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	for name, test := range map[string]struct {
		pod            *v1.Pod
		ended, deleted bool
	}{
		"waiting":                    {pod: builder.Pod("p"), deleted: true},
		"waiting, and being deleted": {pod: builder.Pod("p", func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }), ended: true, deleted: true},
		"on a node":                  {pod: builder.Pod("p", onNode)},
		"has succeeded":              {pod: builder.Pod("p", onNode, func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded }), ended: true, deleted: true},
		"has failed, but runs": {pod: builder.Pod("p", onNode, func(pod *v1.Pod) {
			pod.Status.Phase, pod.Status.ContainerStatuses = v1.PodFailed, []v1.ContainerStatus{runs}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ended := write.Ended(test.pod)
			require.Equal(t, test.ended, ended)
			_, deleted := write.Deleted(test.pod)
			require.Equal(t, test.deleted, deleted)
		})
	}
}
