package podgroup

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

func member(group, claim, node string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimName: &claim}}
		pod.Spec.NodeName = node
	}
}

func TestAnyBound(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("p", member("gang", "c", ""))
	for name, test := range map[string]struct {
		other *v1.Pod
		want  bool
	}{
		"a member":                 {other: builder.Pod("q", member("gang", "c", "n1")), want: true},
		"a member without a node":  {other: builder.Pod("q", member("gang", "c", ""))},
		"a member that has ended":  {other: builder.Pod("q", member("gang", "c", "n1"), func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed })},
		"of another group":         {other: builder.Pod("q", member("other", "c", "n1"))},
		"of no group":              {other: builder.Pod("q", member("gang", "c", "n1"), func(pod *v1.Pod) { pod.Spec.SchedulingGroup = nil })},
		"a member, another claim":  {other: builder.Pod("q", member("gang", "d", "n1"))},
		"a claim that is not made": {other: builder.Pod("q", member("gang", "c", "n1"), notMade)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bound, err := AnyBound(t.Context(), fake.NewClientset(pod, test.other), pod, "c")
			require.NoError(t, err)
			require.Equal(t, test.want, bound)
		})
	}
}

func notMade(pod *v1.Pod) {
	pod.Spec.ResourceClaims[0].ResourceClaimName = nil
	pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = ptr.To("c")
}

func TestAnyBoundIsNotKnown(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	away := errors.New("away")
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	_, err := AnyBound(t.Context(), client, builder.Pod("p", member("gang", "c", "")), "c")
	require.ErrorIs(t, err, away)
	require.ErrorContains(t, err, "pods of PodGroup default/gang")
}

func TestReferences(t *testing.T) {
	t.Parallel()
	byName := func(reference, claim string) v1.PodResourceClaim {
		return v1.PodResourceClaim{Name: reference, ResourceClaimName: &claim}
	}
	pod := builder.Pod("p")
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{byName("own", "own"), byName("shared", "shared"), byName("again", "shared")}
	shared := "shared"
	podGroup := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "gang", UID: "uid-gang"}}
	podGroup.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: "shared", ResourceClaimName: &shared}}
	references, err := References(pod, podGroup)
	require.NoError(t, err)
	require.Len(t, references, 1)
	require.True(t, Is(references["shared"]))
	require.Equal(t, types.UID("uid-gang"), references["shared"].UID)
}
