package tutorial

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// startTimeout is generous: the machine may be busy.
const startTimeout = 3 * time.Minute

// ownCluster stands in for the "cluster of your own", because containers cannot be run here: a control plane, kube-scheduler for
// its pods, nodes by KWOK, and a registry. KWOK says of the pods of the Deployment that they run; the node below runs them.
type ownCluster struct {
	controlPlane *controlplane.ControlPlane
	client       kubernetes.Interface
	// registry is its host and port.
	registry string
}

// startCluster starts a cluster that kubectl talks to for somebody with this home.
func startCluster(t *testing.T, home string) *ownCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	logs := t.TempDir()
	t.Cleanup(func() { showLogs(t, logs) })
	controlPlane, err := controlplane.Start(ctx, controlplane.Options{LogFile: filepath.Join(logs, "controlplane.log")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, controlPlane.Stop()) })
	client, err := kubernetes.NewForConfig(controlPlane.AdminConfig())
	require.NoError(t, err)
	c := &ownCluster{controlPlane: controlPlane, client: client, registry: startRegistry(t)}

	kubeconfig, err := os.ReadFile(controlPlane.AdminKubeconfig())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".kube"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".kube", "config"), kubeconfig, 0o600))

	for _, name := range []string{"worker-0", "worker-1"} {
		_, err := client.CoreV1().Nodes().Create(ctx, fleet.Node(name, "worker", nil), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, controlPlane.StartSimulatedNodes(context.WithoutCancel(t.Context())))
	c.startDefaultScheduler(ctx, t, logs)
	c.startNode(t, logs)
	return c
}

// startDefaultScheduler runs an unchanged kube-scheduler, which places the pod of the Deployment.
func (c *ownCluster) startDefaultScheduler(ctx context.Context, t *testing.T, logs string) {
	t.Helper()
	binary, err := controlplane.FindBinary("kube-scheduler")
	require.NoError(t, err)
	process, err := scheduler.Start(ctx, scheduler.Options{
		Binary: binary, Kubeconfig: c.controlPlane.AdminKubeconfig(), LogFile: filepath.Join(logs, "kube-scheduler.log"),
		Config: []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Stop()) })
}

// served is what the registry says when it can be used.
var served = regexp.MustCompile(`serving on port (\d+)`)

// startRegistry runs an empty registry until the end of the test, and returns its host and port.
func startRegistry(t *testing.T) string {
	t.Helper()
	binary, err := controlplane.FindBinary("registry")
	require.NoError(t, err)
	process := exec.Command(binary, "-port=0")
	log, err := process.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	lines := bufio.NewScanner(log)
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait() // That it was killed is its status.
	})
	for lines.Scan() {
		if match := served.FindStringSubmatch(lines.Text()); match != nil {
			go func() { // It must not wait for somebody to read its log.
				for lines.Scan() {
				}
			}()
			return "localhost:" + match[1]
		}
	}
	t.Fatalf("the registry has ended before it could be used: %v", lines.Err())
	return ""
}

// requireNothingLeft fails the test if the cluster is not as it was before somebody followed the tutorial.
func (c *ownCluster) requireNothingLeft(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	_, err := c.client.AppsV1().Deployments(manifests.Namespace).Get(ctx, manifests.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "the Deployment: %v", err)
	roles, err := c.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: schedulerLabels})
	require.NoError(t, err)
	require.Empty(t, roles.Items)
	slices, err := c.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, slices.Items)
	classes, err := c.client.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, classes.Items)
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		require.NoError(try, err)
		claims, err := c.client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
		require.NoError(try, err)
		require.Zero(try, len(pods.Items)+len(claims.Items))
	}, patience, 100*time.Millisecond, "pods or claims are left")
}

// showLogs prints the ends of all logs if the test has failed.
func showLogs(t *testing.T, folder string) {
	if !t.Failed() {
		return
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Log(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err == nil {
			t.Logf("the end of %s:\n%s", file.Name(), content[max(0, len(content)-4096):])
		}
	}
}
