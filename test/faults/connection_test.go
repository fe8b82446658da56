package faults

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/faults/proxy"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// startScheduler starts a scheduler for the pods of a space that reaches the API
// server through a proxy, which has no faults yet. It sends at most qps requests a
// second; 0 is no limit that matters.
func startScheduler(s *harness.Space, http1 bool, qps int) *proxy.Proxy {
	s.T.Helper()
	p, err := proxy.Start(proxy.Options{Server: cluster.ControlPlane.AdminConfig(), Seed: *seed, HTTP1: http1})
	require.NoError(s.T, err)
	s.T.Cleanup(p.Stop)
	kubeconfig, err := cluster.KubeconfigVia(s.Name, p.URL(), p.Certificate())
	require.NoError(s.T, err)
	s.StartScheduler(harness.SchedulerOptions{
		Kubeconfig: kubeconfig,
		QPS:        qps,
		Change: func(config map[string]any) {
			// The proxy understands events only in JSON.
			connection := config["clientConnection"].(map[string]any)
			connection["contentType"] = "application/json"
			connection["acceptContentTypes"] = "application/json"
		},
	})
	return p
}

// setFaults has the proxy do something else from now on.
func setFaults(t *testing.T, p *proxy.Proxy, faults proxy.Faults) {
	t.Helper()
	require.NoError(t, p.Set(faults))
}
