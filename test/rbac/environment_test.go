package rbac

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

const (
	// startTimeout is generous: the machine may be busy.
	startTimeout = 3 * time.Minute
	// patience is how long anything may take that has to happen.
	patience     = harness.Patience
	pollInterval = 25 * time.Millisecond
	// namespace is where all objects of the probes are.
	namespace = "probes"
)

// environment is a control plane, a scheduler with the configuration and the
// identity of manifests/secondary, and the front between them.
type environment struct {
	// admin may do everything.
	admin     *rest.Config
	client    kubernetes.Interface
	front     *front
	scheduler *scheduler.Process
}

func startEnvironment(t *testing.T) *environment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	logs := newLogs(t)
	cp, err := controlplane.Start(ctx, controlplane.Options{
		LogFile:       filepath.Join(logs, "controlplane.log"),
		FeatureGates:  map[string]bool{groupsGate: true},
		RuntimeConfig: map[string]bool{groupsAPI: true},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cp.Stop()) })
	client, err := kubernetes.NewForConfig(cp.AdminConfig())
	require.NoError(t, err)
	require.NoError(t, manifests.Apply(ctx, cp.AdminConfig(), manifests.Secondary, manifests.ApplyOptions{RBACOnly: true}))
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)

	e := &environment{admin: cp.AdminConfig(), client: client, front: startFront(t, cp.AdminConfig())}
	own, err := cp.ServiceAccountKubeconfig(ctx, manifests.Namespace, manifests.Name)
	require.NoError(t, err)
	kubeconfig := filepath.Join(logs, "scheduler.kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*through(t, own, e.front), kubeconfig))
	binary, err := controlplane.FindBinary("scheduler")
	require.NoError(t, err)
	e.scheduler, err = scheduler.Start(ctx, scheduler.Options{
		Binary: binary, Kubeconfig: kubeconfig, Config: patientConfig(t), LogFile: filepath.Join(logs, "scheduler.log"),
		// In a pod, these two are found by themselves.
		ExtraArgs: []string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig, "-v=3",
			"--feature-gates=" + groupsGate + "=true"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { e.end(t) })
	return e
}

// newLogs makes the folder of all logs. It is kept if the test fails.
func newLogs(t *testing.T) string {
	t.Helper()
	logs, err := os.MkdirTemp("", "quartermaster-rbac-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("all logs are in %s", logs)
			return
		}
		require.NoError(t, os.RemoveAll(logs))
	})
	return logs
}

// through returns a kubeconfig with the same identity and the front as server.
func through(t *testing.T, path string, f *front) *clientcmdapi.Config {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	require.NoError(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData = f.server.URL, f.certificate()
	}
	return config
}

// patientConfig is the shipped configuration, except that the scheduler survives
// for a minute without being able to renew its lease, but tries often, and that the
// plugin evicts pods and soon frees what it finds reserved.
func patientConfig(t *testing.T) []byte {
	t.Helper()
	config, err := harness.SchedulerConfig(&harness.SchedulerOptions{
		LeaderElection: true,
		PluginArgs:     map[string]any{"onConflict": "Evict", "takeoverPause": "1s"},
		Change: func(config map[string]any) {
			election := config["leaderElection"].(map[string]any)
			election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = "90s", "60s", "500ms"
		},
	})
	require.NoError(t, err)
	return config
}

// end stops the scheduler.
func (e *environment) end(t *testing.T) {
	require.NoError(t, e.scheduler.Err(), "the scheduler ended although nobody asked it to")
	require.NoError(t, e.scheduler.Stop())
	panics, err := e.scheduler.LogLines("Observed a panic")
	require.NoError(t, err)
	require.Empty(t, panics)
}

// eventually polls until the condition returns nil, or returns its last error.
func eventually(ctx context.Context, condition func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, func(ctx context.Context) (bool, error) {
		if err := condition(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
		return last == nil, nil
	})
	if last != nil {
		return fmt.Errorf("not within %s: %w", patience, last)
	}
	return err
}
