package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// testTimeout bounds each wait of the tests. Nothing takes as long unless
	// it is broken.
	testTimeout = 3 * time.Minute
	// offByDefault is some feature gate that Kubernetes 1.37 has off.
	offByDefault = "DRAListTypeAttributes"
)

// TestControlPlane starts one control plane, because that takes a while, and
// looks at it from several sides.
func TestControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("it looks at everything that a control plane has; make test-all runs it")
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	begin := time.Now()
	c, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	defer func() { require.NoError(t, c.Stop()) }()

	t.Run("serves the device APIs", func(t *testing.T) { testServesDeviceAPIs(t, c) })
	t.Run("asks RBAC", func(t *testing.T) { testAsksRBAC(t, c) })
	t.Run("runs the controllers", func(t *testing.T) { testControllers(t, c) })
	t.Run("evicts pods from tainted devices", func(t *testing.T) { testDeviceTaintEviction(t, c) })
	// This context outlives the subtest, and with it the simulation: Stop has to end it.
	ctx := t.Context()
	t.Run("simulates nodes", func(t *testing.T) { testSimulatedNodes(ctx, t, c) })
	t.Run("logs to its file", func(t *testing.T) { testLogsEtcdClients(t, c) })
	t.Run("is the only one of the process", func(t *testing.T) {
		_, err := Start(t.Context(), Options{})
		require.ErrorContains(t, err, "this process has one already")
	})
	t.Run("stops clean", func(t *testing.T) { testStopsClean(t, c, temporary) })
}

func testServesDeviceAPIs(t *testing.T, c *ControlPlane) {
	list, err := admin(t, c).Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1")
	require.NoError(t, err)
	served := sets.New[string]()
	for _, resource := range list.APIResources {
		served.Insert(resource.Name)
	}
	require.True(t, served.HasAll("deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaims/status",
		"resourceclaimtemplates", "resourceslices"), "served: %v", sets.List(served))
}

func testStopsClean(t *testing.T, c *ControlPlane, temporary string) {
	entries, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.NotEmpty(t, entries, "the data folder should be below TMPDIR while the control plane runs")
	address := fmt.Sprintf("127.0.0.1:%d", c.apiServer.port)
	connection, err := net.Dial("tcp", address)
	require.NoError(t, err)
	require.NoError(t, connection.Close())

	require.NoError(t, c.Err())
	require.True(t, c.nodes.running())
	require.NoError(t, c.Stop())
	require.NoError(t, c.Stop(), "a second Stop does nothing")

	select {
	case <-c.Done():
	default:
		require.Fail(t, "Done should be closed after Stop")
	}
	require.NoError(t, c.Err(), "an end that was asked for is no error")
	require.False(t, c.nodes.running(), "the node simulator should be gone")
	require.ErrorContains(t, c.StartSimulatedNodes(t.Context()), "does not run any more")
	entries, err = os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, entries, "Stop should leave nothing in the temporary folder")
	_, err = net.Dial("tcp", address)
	require.Error(t, err, "nobody should listen on the API server's port")
}

// TestRestart checks what a named data folder is for: a second control plane,
// in the same process at that, goes on where the first one ended.
func TestRestart(t *testing.T) {
	// The socket of etcd does not fit into such a path.
	dir := filepath.Join(t.TempDir(), "a-folder-whose-name-is-so-long-that-no-unix-domain-socket-can-live-in-it-on-any-system")
	logFile := filepath.Join(t.TempDir(), "some.log")

	first, err := Start(t.Context(), Options{Dir: dir, LogFile: logFile, FeatureGates: map[string]bool{offByDefault: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Stop()) }()
	require.True(t, hasGate(t, first), "the gate should be on")
	require.Equal(t, dir, first.Dir())
	require.Equal(t, logFile, first.LogFile())
	kubeconfig, err := first.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceDefault, "default")
	require.NoError(t, err)
	marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "marker"}}
	_, err = admin(t, first).CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), marker, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, first.Stop())
	info, err := os.Stat(logFile)
	require.NoError(t, err)
	require.NotZero(t, info.Size(), "the components should log to the file they were given")

	second, err := Start(t.Context(), Options{Dir: dir, NodeLifecycle: true, RuntimeConfig: map[string]bool{"resource.k8s.io/v1beta2": true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Stop()) }()
	_, err = admin(t, second).CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "marker", metav1.GetOptions{})
	require.NoError(t, err, "objects outlive a restart")
	_, err = clientFor(t, kubeconfig).CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "marker", metav1.GetOptions{})
	require.ErrorContains(t, err, "is forbidden", "kubeconfigs outlive a restart: the token is known, although it may do nothing")
	_, err = admin(t, second).Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1beta2")
	require.NoError(t, err, "RuntimeConfig switches API versions on")
	require.False(t, hasGate(t, second), "the test needs a gate that is off by default")
	testNodeLifecycle(t, second)

	require.NoError(t, second.controllers.run.process.Kill()) // stands for a failure
	select {
	case <-second.Done():
	case <-time.After(testTimeout):
		require.Fail(t, "Done should be closed when a component ends unasked")
	}
	require.ErrorContains(t, second.Err(), "kube-controller-manager ended: signal: killed")
	require.NoError(t, second.Stop())
	require.DirExists(t, dir, "Stop keeps a named folder")
}

func TestStartFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	taken := t.TempDir()
	lock, err := lockFolder(dataFolder{root: taken})
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.release()) }()
	notAFolder := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(notAFolder, nil, 0o600))

	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"unknown feature gate":       {Options{FeatureGates: map[string]bool{"NoSuchGate": true}}, "unrecognized feature gate: NoSuchGate"},
		"folder in use":              {Options{Dir: taken}, "another control plane is using it"},
		"folder that cannot be made": {Options{Dir: filepath.Join(notAFolder, "data")}, "name a folder that can be written"},
		"log that cannot be written": {Options{LogFile: filepath.Join(notAFolder, "log")}, "Options.LogFile"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), test.options)
			require.ErrorContains(t, err, test.want)
			require.False(t, inProcess.Load(), "a start that failed should not block the next one")
		})
	}
	leftovers, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*"))
	require.NoError(t, err)
	require.Len(t, leftovers, 1, "only the log of the start that got as far as to have one stays: %v", leftovers)
	require.Equal(t, ".log", filepath.Ext(leftovers[0]))
}

// hasGate reports whether the API server has the gate offByDefault on.
func hasGate(t *testing.T, c *ControlPlane) bool {
	t.Helper()
	metrics, err := admin(t, c).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	require.NoError(t, err)
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "kubernetes_feature_enabled{") && strings.Contains(line, `name="`+offByDefault+`"`) {
			return strings.HasSuffix(strings.TrimSpace(line), " 1")
		}
	}
	t.Fatalf("the API server does not say whether %s is on", offByDefault)
	return false
}

// admin is a client that may do everything.
func admin(t *testing.T, c *ControlPlane) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	require.NoError(t, err)
	return client
}

// clientFor is a client with the identity of a kubeconfig file.
func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// eventually waits until check returns nil, and fails with its last error.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, testTimeout, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); ctx.Err() == nil || last == nil {
			last = err
		}
		return last == nil, nil
	})
	require.NoError(t, err, "%s: %v", what, last)
}

// newNamespace makes a namespace in which pods can be created.
func newNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "default service account in "+name, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
