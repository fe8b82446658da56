package controlplane

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testAsksRBAC checks that a service account may do what RBAC says, and the
// administrator everything.
func testAsksRBAC(t *testing.T, c *ControlPlane) {
	ctx, client := t.Context(), admin(t, c)
	newNamespace(t, client, "rbac")
	_, err := c.ServiceAccountKubeconfig(ctx, "rbac", "reader")
	require.ErrorContains(t, err, "create the service account first")
	_, err = client.CoreV1().ServiceAccounts("rbac").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, "rbac", "reader")
	require.NoError(t, err)
	reader := clientFor(t, kubeconfig)

	_, err = reader.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "without a role: %v", err)

	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"list"}}},
	}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "rbac", Name: "reader"}},
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	require.NoError(t, err)

	eventually(t, "the role takes effect", func(ctx context.Context) error {
		_, err := reader.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		return err
	})
	_, err = reader.CoreV1().Pods("rbac").List(ctx, metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "what the role does not allow: %v", err)

	_, err = clientFor(t, c.AdminKubeconfig()).CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
	require.NoError(t, err, "the administrator's kubeconfig")
}
