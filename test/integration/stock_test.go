package integration

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/schedulerproc"
)

const (
	// stockIdentity is the service account of the stock scheduler.
	stockIdentity = "stock-scheduler"
	// stockConfig is what a kube-scheduler has that nobody configured.
	stockConfig = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
)

// startStockScheduler runs an unchanged kube-scheduler under an identity of its
// own with the rights that every cluster has for it.
func startStockScheduler(t *testing.T, log string) *schedulerproc.Process {
	t.Helper()
	process, err := startProcess(t.Context(), "kube-scheduler", schedulerproc.Options{
		Config:     []byte(stockConfig),
		Kubeconfig: stockKubeconfig(t),
		LogFile:    filepath.Join(cluster.logs, log+".log"),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, process.Err(), "the stock scheduler ended although nobody asked it to")
		require.NoError(t, process.Stop())
	})
	return process
}

// stockKubeconfig makes the identity unless it exists.
func stockKubeconfig(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	accounts := cluster.client.CoreV1().ServiceAccounts(manifests.Namespace)
	if _, err := accounts.Get(ctx, stockIdentity, metav1.GetOptions{}); err != nil {
		_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: stockIdentity}}, metav1.CreateOptions{})
		require.NoError(t, err)
		subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: stockIdentity}}
		for _, role := range []string{"system:kube-scheduler", "system:volume-scheduler"} {
			_, err := cluster.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: stockIdentity + ":" + role},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   subjects,
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		for _, role := range []string{"system::leader-locking-kube-scheduler", "extension-apiserver-authentication-reader"} {
			_, err := cluster.client.RbacV1().RoleBindings(manifests.Namespace).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: stockIdentity + ":" + role},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
				Subjects:   subjects,
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	kubeconfig, err := cluster.controlPlane.ServiceAccountKubeconfig(ctx, manifests.Namespace, stockIdentity)
	require.NoError(t, err)
	return kubeconfig
}
