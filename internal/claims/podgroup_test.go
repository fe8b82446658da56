package claims

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestPodGroupReferences(t *testing.T) {
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
	references, err := PodGroupReferences(pod, podGroup)
	require.NoError(t, err)
	require.Len(t, references, 1)
	require.True(t, dra.IsPodGroup(references["shared"]))
	require.Equal(t, types.UID("uid-gang"), references["shared"].UID)
}
