package chart

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// helm is Helm as a user has it, for one release in one namespace: its records are Secrets there.
type helm struct {
	*controlPlane
	t                  *testing.T
	release, namespace string
}

func (c *controlPlane) helm(t *testing.T, name, namespace string) *helm {
	h := &helm{controlPlane: c, t: t, release: name, namespace: namespace}
	t.Cleanup(func() {
		if releases, err := h.configuration().Releases.History(name); t.Failed() && err == nil && len(releases) > 0 {
			h.uninstall() // Other tests go on.
		}
	})
	return h
}

// configuration is a new one for each command: each of a user's commands is a process of its own.
func (h *helm) configuration() *action.Configuration {
	h.t.Helper()
	settings := cli.New()
	settings.KubeConfig, settings.QPS, settings.BurstLimit = h.kubeconfig, 1000, 1000
	settings.SetNamespace(h.namespace)
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	require.NoError(h.t, configuration.Init(settings.RESTClientGetter(), h.namespace, "secret"))
	return configuration
}

// install does what "helm install" does, without --wait.
func (h *helm) install(set values) error { return h.installAs(set, false) }

func (h *helm) installAs(set values, takeOwnership bool) error {
	h.t.Helper()
	install := action.NewInstall(h.configuration())
	install.ReleaseName, install.Namespace, install.TakeOwnership = h.release, h.namespace, takeOwnership
	install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, patience
	_, err := install.Run(loadChart(h.t), set)
	return err
}

func (h *helm) mustInstall(set values) {
	h.t.Helper()
	require.NoError(h.t, h.install(set))
}

// upgrade does what "helm upgrade" does with all values given.
func (h *helm) upgrade(set values) error {
	h.t.Helper()
	upgrade := action.NewUpgrade(h.configuration())
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = h.namespace, kube.HookOnlyStrategy, patience
	_, err := upgrade.Run(h.release, loadChart(h.t), set)
	return err
}

func (h *helm) mustUpgrade(set values) {
	h.t.Helper()
	require.NoError(h.t, h.upgrade(set))
}

func (h *helm) rollback(revision int) {
	h.t.Helper()
	require.NoError(h.t, h.tryRollback(revision))
}

func (h *helm) tryRollback(revision int) error {
	h.t.Helper()
	rollback := action.NewRollback(h.configuration())
	rollback.Version, rollback.WaitStrategy, rollback.Timeout = revision, kube.HookOnlyStrategy, patience
	return rollback.Run(h.release)
}

// uninstall does what "helm uninstall --wait" does.
func (h *helm) uninstall() {
	h.t.Helper()
	uninstall := action.NewUninstall(h.configuration())
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, patience
	_, err := uninstall.Run(h.release)
	require.NoError(h.t, err)
}

// revision is the newest one, and its state.
func (h *helm) revision() (int, string) {
	h.t.Helper()
	last, err := h.configuration().Releases.Last(h.release)
	require.NoError(h.t, err)
	newest := last.(*release.Release)
	return newest.Version, string(newest.Info.Status)
}
