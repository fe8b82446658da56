package chart

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgradeAndRollback: values that change are what the server has after an upgrade. A value that the schema refuses changes nothing.
// A rollback brings back exactly what was there. The guard's certificate authority, which it has put into its webhook
// configuration itself, stays across upgrades.
func TestUpgradeAndRollback(t *testing.T) {
	c := onCluster(t)
	defer c.operatorKinds(t)()
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	h.mustInstall(values{})
	first := c.content(t)
	require.Len(t, first, len(folder(t, "secondary")))

	set := func(failurePolicy string) values {
		return values{
			"guard":      values{"enabled": true, "failurePolicy": failurePolicy, "extraArgs": quickly("--")},
			"monitoring": values{"enabled": true}, "scheduler": values{"replicas": 2},
		}
	}
	h.mustUpgrade(set("Ignore"))
	second := c.content(t)
	require.Len(t, second, len(folder(t, "secondary"))+len(folder(t, "guard"))+len(folder(t, "monitoring")))
	require.EqualValues(t, 2, second["deployments.apps kube-system/quartermaster"].(map[string]any)["spec"].(map[string]any)["replicas"])

	guard := c.run(t, "quartermaster-guard", "quartermaster-guard")
	authority := c.requireGuard(t)
	h.mustUpgrade(set("Fail"))
	require.Equal(t, authority, c.requireGuard(t))
	configuration, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "quartermaster-guard", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, "Fail", *configuration.Webhooks[0].FailurePolicy)

	third := c.content(t)
	revision, _ := h.revision()
	require.ErrorContains(t, h.upgrade(set("fail")), "at '/guard/failurePolicy': value must be one of 'Ignore', 'Fail'")
	require.ErrorContains(t, h.upgrade(values{"mode": "replace-default", "scheduler": values{"replicas": 1}}), "set scheduler.replicas to 2 or more")
	same, state := h.revision()
	require.Equal(t, revision, same)
	require.Equal(t, "deployed", state)
	require.Equal(t, third, c.content(t))

	h.rollback(2)
	require.Equal(t, authority, c.requireGuard(t))
	requireStopped(t, guard)
	h.rollback(1)
	c.awaitGone(t, namespaces, "quartermaster-guard")
	require.Equal(t, first, c.content(t))
	for _, name := range c.names(t) {
		require.NotContains(t, name, "quartermaster-guard", "of the guard nothing is left, nor of what it has made itself")
	}
	h.rollback(2)
	require.Equal(t, second, c.content(t))
	h.uninstall()
	c.requireLeft(t, before)
}

// TestChangedConfigurationRolls: another configuration is another ConfigMap, the old one is gone, and a rollback brings it
// back.
func TestChangedConfigurationRolls(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	h.mustInstall(values{})
	first := c.content(t)
	h.mustUpgrade(values{"gangScheduling": values{"enabled": true}})
	var configurations []string
	for name := range c.content(t) {
		if strings.HasPrefix(name, "configmaps") {
			configurations = append(configurations, name)
		}
	}
	require.Len(t, configurations, 1)
	require.NotContains(t, first, configurations[0])
	process := c.run(t, releaseNamespace, "quartermaster")
	c.schedule(t, "quartermaster")
	requireStopped(t, process)
	h.rollback(1)
	require.Equal(t, first, c.content(t))
	h.uninstall()
	c.requireLeft(t, before)
}

// TestModeChanges: from a second scheduler to one in the place of the default one, and back, and to none. The Lease of a second
// scheduler goes.
func TestModeChanges(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	h.mustInstall(values{})
	first := c.content(t)
	c.lead(t, releaseNamespace, "quartermaster")

	h.mustUpgrade(values{"mode": "replace-default"})
	require.False(t, c.exists(t, leases, releaseNamespace, "quartermaster"))
	process := c.run(t, releaseNamespace, "quartermaster")
	c.schedule(t, "default-scheduler")
	requireStopped(t, process)

	h.rollback(1)
	require.Equal(t, first, c.content(t))
	c.lead(t, releaseNamespace, "quartermaster")
	h.mustUpgrade(values{"mode": "none", "guard": values{"enabled": true}})
	require.False(t, c.exists(t, leases, releaseNamespace, "quartermaster"))
	h.uninstall()
	require.NoError(t, c.client.CoordinationV1().Leases("kube-system").Delete(t.Context(), "kube-scheduler", metav1.DeleteOptions{}))
	c.requireLeft(t, before)
}

// TestGuardComesBackTooEarly: while its namespace ends, the guard cannot be installed again. Installations and upgrades are
// refused before anything is changed, and once that is over, the same command works.
func TestGuardComesBackTooEarly(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	with := values{"guard": values{"enabled": true}}
	h.mustInstall(with)
	end := c.keepEnding(t, "quartermaster-guard")
	h.mustUpgrade(values{"mode": "replace-default"})
	second := c.content(t)
	err := h.upgrade(with)
	require.ErrorContains(t, err, "namespace quartermaster-guard is still ending")
	require.Equal(t, second, c.content(t))
	end()
	c.awaitGone(t, namespaces, "quartermaster-guard")
	h.mustUpgrade(with)
	h.uninstall()
	c.requireLeft(t, before)
}

// TestRollbackOfTheGuardTooEarly: a rollback does not look at the chart and is not refused, but fails on the way. Helm does
// not know afterwards what is there of the revision before. Rolling back to that one first, and then once more, leaves nothing.
func TestRollbackOfTheGuardTooEarly(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	h.mustInstall(values{"guard": values{"enabled": true}})
	first := c.content(t)
	end := c.keepEnding(t, "quartermaster-guard")
	h.mustUpgrade(values{"mode": "replace-default"})
	require.ErrorContains(t, h.tryRollback(1), "because it is being terminated")
	end()
	c.awaitGone(t, namespaces, "quartermaster-guard")
	h.rollback(2)
	h.rollback(1)
	require.Equal(t, first, c.content(t))
	h.uninstall()
	c.requireLeft(t, before)
}
