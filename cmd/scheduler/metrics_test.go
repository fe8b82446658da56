package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/gangplacement"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
)

// described are the names and labels of a description: there is no other way to them.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", .*variableLabels: \{(.*)\}\}$`)

// registeredMetrics returns the labels of all metrics that the process knows, by name. It reads descriptions, because
// metrics with labels have no samples at first.
func registeredMetrics(t *testing.T) map[string][]string {
	t.Helper()
	collector, ok := legacyregistry.Registerer().(prometheus.Collector)
	require.True(t, ok, "the registry describes what is registered")
	descriptions := make(chan *prometheus.Desc)
	go func() {
		collector.Describe(descriptions)
		close(descriptions)
	}()
	metrics := make(map[string][]string)
	for description := range descriptions {
		match := described.FindStringSubmatch(description.String())
		require.NotNil(t, match, description)
		metrics[match[1]] = strings.FieldsFunc(match[2], func(r rune) bool { return r == ',' })
	}
	return metrics
}

// typesOf returns the types of the metrics that have samples.
func typesOf(t *testing.T) map[string]string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	types := make(map[string]string)
	for _, family := range families {
		types[family.GetName()] = strings.ToLower(family.GetType().String())
	}
	return types
}

// setUpWith sets the scheduler up as run does, with a configuration. The server has nothing.
func setUpWith(t *testing.T, config []byte) (*schedulerconfig.CompletedConfig, error) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	folder := t.TempDir()
	file, kubeconfig := filepath.Join(folder, "config.yaml"), filepath.Join(folder, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "`+server.URL+`"}}], "users": [{"name": "u", "user": {}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`), 0o600))
	config = []byte(strings.Replace(string(config), "clientConnection:", "clientConnection:\n  kubeconfig: "+kubeconfig, 1))
	require.NoError(t, os.WriteFile(file, config, 0o600))
	o := options.NewOptions()
	o.ConfigFile = file
	o.SecureServing.BindPort = 0
	o.Authentication.SkipInClusterLookup = true
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	t.Cleanup(func() { o.InformerName.Release() })
	completed, _, err := setup(ctx, o, []app.Option{
		app.WithPlugin(quartermaster.Name, quartermaster.New), app.WithPlugin(gangplacement.Name, gangplacement.New),
	})
	return completed, err
}

// setUpForMetrics sets the scheduler up with the shipped configuration.
func setUpForMetrics(t *testing.T) {
	t.Helper()
	config, err := manifests.SchedulerConfig(manifests.Secondary)
	require.NoError(t, err)
	completed, err := setUpWith(t, config)
	require.NoError(t, err)
	election := completed.LeaderElection // Its metrics are registered when it begins.
	election.Callbacks = leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}}
	_, err = leaderelection.NewLeaderElector(*election)
	require.NoError(t, err)
}

// TestServedMetrics: the scheduler serves the metrics that manifests/monitoring is about, with these types and labels.
func TestServedMetrics(t *testing.T) {
	setUpForMetrics(t)
	registered, types := registeredMetrics(t), typesOf(t)
	list, err := os.ReadFile("../../test/monitoring/testdata/served.txt")
	require.NoError(t, err)
	listed := 0
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		listed++
		labels, found := registered[fields[0]]
		require.True(t, found, "%s is not served", fields[0])
		require.ElementsMatch(t, fields[2:], labels, fields[0])
		if kind, sampled := types[fields[0]]; sampled {
			require.Equal(t, fields[1], kind, fields[0])
		} else {
			require.NotEqual(t, "histogram", fields[1], "%s: nobody knows its type before it has samples", fields[0])
		}
	}
	require.Greater(t, listed, 10)
}
