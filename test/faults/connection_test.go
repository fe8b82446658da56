package faults

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/faults/proxy"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// connection is how a scheduler reaches the API server. The zero value is the shipped
// scheduler (protobuf over HTTP/2) with no limit that matters.
type connection struct {
	// http1 has it use HTTP/1.1.
	http1 bool
	// json has it use JSON, which is what users have who set it, and alpha versions.
	json bool
	// v1beta1 hides all newer versions of the claim API from it.
	v1beta1 bool
	// qps is how many requests it sends a second at most, 0 is no limit that matters.
	qps int
}

// startScheduler starts a scheduler for the pods of a space that reaches the API
// server through a proxy, which has no faults yet.
func startScheduler(s *harness.Space, c connection) *proxy.Proxy {
	s.T.Helper()
	o := proxy.Options{Server: cluster.ControlPlane.AdminConfig(), Seed: *seed, HTTP1: c.http1}
	version := "resourceclaims v1,"
	if c.v1beta1 {
		o.Hidden = []string{"resource.k8s.io/v1", "resource.k8s.io/v1beta2"}
		version = "resourceclaims v1beta1,"
	}
	p, err := proxy.Start(o)
	require.NoError(s.T, err)
	s.T.Cleanup(p.Stop)
	kubeconfig, err := cluster.KubeconfigVia(s.Name, p.URL(), p.Certificate())
	require.NoError(s.T, err)
	scheduler := s.StartScheduler(harness.SchedulerOptions{
		Kubeconfig: kubeconfig,
		QPS:        c.qps,
		Change: func(config map[string]any) {
			if c.json {
				connection := config["clientConnection"].(map[string]any)
				connection["contentType"] = "application/json"
				connection["acceptContentTypes"] = "application/json"
			}
		},
	})
	says, err := scheduler.LogLines(version)
	require.NoError(s.T, err)
	require.NotEmpty(s.T, says, "the scheduler says which versions of the claim API it uses")
	return p
}

// setFaults has the proxy do something else from now on.
func setFaults(t *testing.T, p *proxy.Proxy, faults proxy.Faults) {
	t.Helper()
	require.NoError(t, p.Set(faults))
}
