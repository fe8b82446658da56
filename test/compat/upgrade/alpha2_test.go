package upgrade

import (
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// deleteAlpha2 deletes pods with claims and everything of v1alpha2, as whoever upgrades has
// to do: 1.31 can neither read what was stored in that version, nor the names of claims in
// pods of 1.30.
func deleteAlpha2(s *harness.Space, pods ...string) {
	s.T.Helper()
	for _, pod := range pods {
		s.DeletePod(pod)
		s.Gone(pod)
	}
	client, err := dynamic.NewForConfig(s.Cluster.ControlPlane.AdminConfig())
	require.NoError(s.T, err)
	claims, err := s.Cluster.Client.ResourceV1().ResourceClaims(s.Name).List(s.T.Context(), metav1.ListOptions{})
	require.NoError(s.T, err)
	for _, resource := range []string{"resourceclaims", "resourceclaimtemplates", "resourceclaimparameters"} {
		err := client.Resource(v1alpha2.GroupVersion.WithResource(resource)).Namespace(s.Name).
			DeleteCollection(s.T.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		require.NoError(s.T, err, resource)
	}
	for i := range claims.Items {
		s.ClaimGone(claims.Items[i].Name)
	}
	for _, resource := range []string{"resourceclasses", "resourceslices"} {
		err := client.Resource(v1alpha2.GroupVersion.WithResource(resource)).
			DeleteCollection(s.T.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		require.NoError(s.T, err, resource)
	}
}
