package gangs

import (
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// patchGroup changes a PodGroup with a JSON merge patch.
func (s *space) patchGroup(name, patch string) {
	s.T.Helper()
	client, err := dynamic.NewForConfig(cluster.ControlPlane.AdminConfig())
	require.NoError(s.T, err)
	groups := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("podgroups")).Namespace(s.Name)
	_, err = groups.Patch(s.T.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.T, err)
}
