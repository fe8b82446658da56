package gangs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// PodGroups are there, but not the scheduler's rights: it says which are missing, and goes on once it has them.
func TestRightsComeLater(t *testing.T) {
	install(t)
	client, _ := admin(t)
	require.NoError(t, client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "quartermaster-pod-groups", metav1.DeleteOptions{}))
	awaitForbidden(t, client)
	create(t, object("train", 2))
	groups := follow(t)
	eventually(t, func(context.Context) error {
		const want = "give it the ClusterRole quartermaster-pod-groups (kubectl apply -k manifests/pod-groups)"
		if _, err := groups.Get(namespace, "train"); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("want an error with %q, got %w", want, err)
		}
		return nil
	})
	require.False(t, groups.HasSynced())

	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{RBACOnly: true}))
	eventually(t, func(context.Context) error {
		group, err := groups.Get(namespace, "train")
		if err == nil && group.Status.Phase != v1alpha1.PodGroupPending {
			err = fmt.Errorf("the group has phase %q, want Pending", group.Status.Phase)
		}
		return err
	})
	require.True(t, groups.HasSynced())
}

// awaitForbidden waits until the authoriser knows that the scheduler may not read PodGroups.
func awaitForbidden(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + manifests.Namespace + ":" + manifests.Name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: podGroups.Group, Resource: podGroups.Resource},
		}}
		eventually(t, func(ctx context.Context) error {
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err == nil && answer.Status.Allowed {
				err = fmt.Errorf("the scheduler may still %s PodGroups", verb)
			}
			return err
		})
	}
}
