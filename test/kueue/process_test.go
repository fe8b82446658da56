package kueue

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// class is the only DeviceClass that Kueue knows. All spaces have devices of it, each on nodes of its own.
	class = "gpu"
	// quotaName is the resource that devices of the class count as in quotas.
	quotaName = "example.com/gpu"
)

// settings are the differences between a Kueue and another one.
type settings struct {
	// gates are Kueue's feature gates.
	gates map[string]bool
	// readyWithin, unless it is 0, has Kueue take jobs back whose pods are not ready by then.
	readyWithin time.Duration
}

// admitter is Kueue.
var admitter = component{
	name: "kueue", module: "sigs.k8s.io/kueue",
	groups:    []any{"", "batch", jobSetAPI.Group, kueueAPI.Group},
	pods:      map[string]any{"namespaceSelector": otherNamespaces()},
	converted: []string{"ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "Workload"},
}

// start installs Kueue and the controller of JobSets, and runs them until the end of the test. Nothing else may at the same time.
func start(t *testing.T, s settings) {
	t.Helper()
	shown := newCertificate(t)
	installSecret(t, shown)
	jobSets.start(t, shown, jobSetConfiguration)
	admitter.start(t, shown, s.configuration)
}

// start installs a component and runs it until the end of the test.
func (c component) start(t *testing.T, shown certificate, configuration func(webhook, health *net.TCPAddr, certificates string) map[string]any) {
	t.Helper()
	webhook, health := harness.FreeAddress(t), harness.FreeAddress(t)
	c.install(t, webhook, shown)
	text, err := yaml.Marshal(configuration(webhook, health, shown.folder))
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, text, 0o600))
	ended := cluster.RunBinary(t, c.name, c.name+".log", nil, "--config="+config, "--kubeconfig="+cluster.ControlPlane.AdminKubeconfig(), "--zap-log-level=3")
	cluster.AwaitReady(t, c.name, "http://"+health.String()+"/readyz", ended)
}

// configuration returns Kueue's configuration file.
func (s settings) configuration(webhook, health *net.TCPAddr, certificates string) map[string]any {
	gates := map[string]any{"VisibilityOnDemand": false} // It would serve at a port that cannot be chosen.
	for gate, on := range s.gates {
		gates[gate] = on
	}
	config := map[string]any{
		"apiVersion":                   "config.kueue.x-k8s.io/v1beta2",
		"kind":                         "Configuration",
		"namespace":                    namespace,
		"health":                       map[string]any{"healthProbeBindAddress": health.String()},
		"metrics":                      map[string]any{"bindAddress": "0"},
		"webhook":                      map[string]any{"host": webhook.IP.String(), "port": webhook.Port, "certDir": certificates},
		"leaderElection":               map[string]any{"leaderElect": false},
		"internalCertManagement":       map[string]any{"enable": true},
		"clientConnection":             map[string]any{"qps": 500, "burst": 1000},
		"managedJobsNamespaceSelector": otherNamespaces(),
		"integrations":                 map[string]any{"frameworks": []any{"batch/job", "pod", "jobset.x-k8s.io/jobset"}},
		"resources": map[string]any{
			"deviceClassMappings": []any{map[string]any{"name": quotaName, "deviceClassNames": []any{class}}},
		},
		"featureGates": gates,
	}
	if s.readyWithin > 0 {
		config["waitForPodsReady"] = map[string]any{
			"timeout":           s.readyWithin.String(),
			"requeuingStrategy": map[string]any{"backoffBaseSeconds": 1, "backoffMaxSeconds": 2},
		}
	}
	return config
}
