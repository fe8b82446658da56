package manifests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// pollInterval and pollTimeout bound how tests wait for the cluster.
const (
	pollInterval = 50 * time.Millisecond
	pollTimeout  = 3 * time.Minute
)

// The scheduler starts with the shipped configuration and identity: all its
// caches fill, it becomes the leader, it serves metrics to those who may read
// them, and nothing it asks for is refused.
func TestSchedulerRuns(t *testing.T) {
	leases := map[string]string{
		manifests.Secondary:      "quartermaster",
		manifests.ReplaceDefault: "kube-scheduler",
	}
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	for _, overlay := range manifests.Overlays() {
		t.Run(overlay, func(t *testing.T) {
			require.NoError(t, manifests.Apply(t.Context(), cluster.AdminConfig(), overlay, manifests.ApplyOptions{RBACOnly: true}))
			defer uninstall(t, overlay)
			// A first list that is refused is tried again only after a while, and
			// would be in the log.
			for _, question := range accessCases {
				awaitAccess(t, client, question, question.allowed(overlay))
			}

			process := startScheduler(t, overlay)
			awaitLeader(t, client, leases[overlay])
			requireMetrics(t, client, process.Address())

			require.NoError(t, process.Stop())
			refused, err := process.LogLines("forbidden")
			require.NoError(t, err)
			require.Empty(t, refused)
		})
	}
}

// startScheduler runs bin/scheduler as the Deployment does, except that it finds
// the API server and its identity in a kubeconfig. It returns when the scheduler
// is ready.
func startScheduler(t *testing.T, overlay string) *scheduler.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pollTimeout)
	defer cancel()
	binary, err := controlplane.FindBinary("scheduler")
	require.NoError(t, err)
	config, err := manifests.SchedulerConfig(overlay)
	require.NoError(t, err)
	kubeconfig, err := cluster.ServiceAccountKubeconfig(ctx, manifests.Namespace, manifests.Name)
	require.NoError(t, err)
	process, err := scheduler.Start(ctx, scheduler.Options{
		Binary:     binary,
		Kubeconfig: kubeconfig,
		Config:     config,
		LogFile:    filepath.Join(t.TempDir(), "scheduler.log"),
		// In a cluster these are found without being told.
		ExtraArgs: []string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Stop()) })
	return process
}

func awaitLeader(t *testing.T, client kubernetes.Interface, lease string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, pollTimeout, true, func(ctx context.Context) (bool, error) {
		existing, err := client.CoordinationV1().Leases(manifests.Namespace).Get(ctx, lease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && existing.Spec.HolderIdentity != nil && *existing.Spec.HolderIdentity != "", err
	})
	require.NoError(t, err, "lease %s has no holder", lease)
}

// requireMetrics reads metrics with a token that may: the scheduler has to have
// the token reviewed and the access authorised by the API server.
func requireMetrics(t *testing.T, client kubernetes.Interface, address string) {
	t.Helper()
	ctx, name := t.Context(), "metrics-reader"
	accounts, bindings := client.CoreV1().ServiceAccounts("default"), client.RbacV1().ClusterRoleBindings()
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, accounts.Delete(ctx, name, metav1.DeleteOptions{})) }()
	_, err = bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, bindings.Delete(ctx, name, metav1.DeleteOptions{})) }()
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.Equal(t, http.StatusForbidden, getMetrics(t, address, ""), "without a token")
	// The new binding takes effect with a delay.
	err = wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(context.Context) (bool, error) {
		switch status := getMetrics(t, address, token.Status.Token); status {
		case http.StatusOK:
			return true, nil
		case http.StatusForbidden:
			return false, nil
		default:
			return false, fmt.Errorf("GET /metrics returned status %d", status)
		}
	})
	require.NoError(t, err)
}

// getMetrics returns the HTTP status of a request for /metrics.
func getMetrics(t *testing.T, address, token string) int {
	t.Helper()
	client, err := rest.HTTPClientFor(&rest.Config{
		BearerToken: token,
		// The certificate is self-signed.
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	require.NoError(t, err)
	response, err := client.Get("https://" + address + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode
}
