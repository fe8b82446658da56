package chart

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// requireNothing: an installation that was refused has left nothing, but for Helm's own record that it failed, which "helm uninstall"
// removes.
func (c *controlPlane) requireNothing(t *testing.T, h *helm, before []string) {
	t.Helper()
	if releases, err := h.configuration().Releases.History(h.release); err == nil && len(releases) > 0 {
		h.uninstall()
	}
	c.requireLeft(t, before)
}

// TestSecondRelease: a cluster has one Quartermaster. A second release is refused, wherever it is to be, and the first one is
// left alone.
func TestSecondRelease(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	first := c.helm(t, releaseName, releaseNamespace)
	first.mustInstall(values{"guard": values{"enabled": true}})
	c.awaitPods(t, 3)
	between, content := c.names(t), c.content(t)

	for _, second := range []*helm{c.helm(t, "another", releaseNamespace), c.helm(t, releaseName, "default")} {
		err := second.install(values{})
		require.ErrorContains(t, err, "exists and cannot be imported into the current release")
		require.ErrorContains(t, err, `"quartermaster`)
		err = second.install(values{"mode": "none", "guard": values{"enabled": true}})
		require.ErrorContains(t, err, "exists and cannot be imported into the current release")
		c.requireNothing(t, second, between)
		require.Equal(t, content, c.content(t))
	}
	require.ErrorContains(t, first.install(values{}), "cannot reuse a name that is still in use")

	first.uninstall()
	c.requireLeft(t, before)
}

// TestSchedulerAndGuardInTwoReleases: the two can also be releases of their own, in either order.
func TestSchedulerAndGuardInTwoReleases(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	scheduler, guard := c.helm(t, releaseName, releaseNamespace), c.helm(t, "guard", releaseNamespace)
	scheduler.mustInstall(values{})
	guard.mustInstall(values{"mode": "none", "guard": values{"enabled": true}})
	process := c.run(t, releaseNamespace, "quartermaster")
	c.requireLease(t, releaseNamespace, "quartermaster")
	// What is about the guard alone leaves the Lease of the scheduler where it is.
	guard.mustUpgrade(values{"mode": "none", "guard": values{"enabled": true, "failurePolicy": "Fail"}})
	require.True(t, c.exists(t, leases, releaseNamespace, "quartermaster"))
	guard.uninstall()
	require.True(t, c.exists(t, leases, releaseNamespace, "quartermaster"))
	requireStopped(t, process)
	scheduler.uninstall()
	c.requireLeft(t, before)
}

// TestFromKustomize: what kustomizations have installed is not taken over unless Helm is told to (--take-ownership). Then it is the
// same objects, and goes with the release.
func TestFromKustomize(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	require.NoError(t, manifests.Apply(t.Context(), c.config, manifests.Secondary, manifests.ApplyOptions{}))
	c.awaitPods(t, 1)
	applied, uids := c.names(t), map[string]any{}
	for name, object := range c.everything(t) {
		uids[name] = object.GetUID()
	}
	h := c.helm(t, releaseName, releaseNamespace)
	err := h.install(values{})
	require.ErrorContains(t, err, `exists and cannot be imported into the current release: invalid ownership metadata`)
	c.requireNothing(t, h, applied)

	require.NoError(t, h.installAs(values{}, true))
	require.Len(t, c.content(t), len(folder(t, "secondary")))
	for name, object := range c.everything(t) {
		if object.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" {
			require.Equal(t, uids[name], object.GetUID(), name)
		}
	}
	h.uninstall()
	c.requireLeft(t, before)
}

// TestOperatorsAreMissing: monitoring and cert-manager's certificates need kinds that others install. Without these, nothing is
// installed, and the message says what is missing.
func TestOperatorsAreMissing(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	for message, set := range map[string]values{
		"no kinds PodMonitor and PrometheusRule (monitoring.coreos.com/v1): they come with the Prometheus operator": {"monitoring": values{"enabled": true}},
		"no kinds Certificate and Issuer (cert-manager.io/v1); install cert-manager first":                          {"guard": values{"enabled": true, "certificates": "cert-manager"}},
	} {
		err := h.install(set)
		require.ErrorContains(t, err, message)
		c.requireNothing(t, h, before)
	}
	// Both are installed where their kinds are.
	remove := c.operatorKinds(t)
	h.mustInstall(values{"monitoring": values{"enabled": true}, "guard": values{
		"enabled": true, "certificates": "cert-manager", "clientCertificates": true, "onlyFrom": []any{"192.0.2.0/24", "2001:db8::/32"}}})
	h.uninstall()
	remove()
	c.requireLeft(t, before)
}
