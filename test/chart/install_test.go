package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

var (
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// TestInstalledSchedulerRuns: in each mode, and in a namespace of its own, the scheduler runs with the account, the rights,
// the arguments and the configuration that the chart installs, and schedules a pod with a claim. After uninstall, the server
// has what it had before, and nothing else: the Lease of a second scheduler is gone as well.
func TestInstalledSchedulerRuns(t *testing.T) {
	c := onCluster(t)
	defer c.operatorKinds(t)()
	all := values{
		"gangScheduling": values{"enabled": true}, "podGroups": values{"enabled": true, "crd": "delete"},
		"deviceBookings": values{"enabled": true, "crd": "delete"},
		"scheduler":      values{"extraArgs": []any{"--v=2"}, "args": values{"strategy": "pack", "stepBudget": 2000, "closeness": []any{}}},
	}
	for _, value := range []string{"monitoring", "finalizerAtCreation", "alphaApi", "kubectlDevices"} {
		all[value] = values{"enabled": true}
	}
	renamed := maps.Clone(all)
	renamed["fullnameOverride"], renamed["commonLabels"], renamed["commonAnnotations"] = "devices", values{"team": "batch"}, values{"example.com/owner": "batch"}
	renamed["scheduler"] = podSettings()
	renamed["scheduler"].(values)["serviceAccount"] = values{"name": "scheduler"}
	renamed["scheduler"].(values)["priorityClassName"] = "system-node-critical"
	defer c.namespace(t, "123")()
	for name, test := range map[string]struct {
		set                                  values
		namespace, lease, schedulerName, own string
	}{
		"secondary":             {values{}, "kube-system", "quartermaster", "quartermaster", "kube-system"},
		"with other names":      {renamed, "kube-system", "quartermaster", "quartermaster", "kube-system"},
		"with all additions":    {all, "kube-system", "quartermaster", "quartermaster", "kube-system"},
		"replace-default":       {values{"mode": "replace-default"}, "kube-system", "kube-scheduler", "default-scheduler", "kube-system"},
		"in another namespace":  {all, "123", "quartermaster", "quartermaster", "123"},
		"replaces from another": {values{"mode": "replace-default"}, "123", "kube-scheduler", "default-scheduler", "kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.names(t)
			h := c.helm(t, releaseName, test.namespace)
			h.mustInstall(test.set)
			deployment := "quartermaster"
			if name, other := test.set["fullnameOverride"].(string); other {
				deployment = name
			}
			process := c.run(t, test.namespace, deployment)
			c.schedule(t, test.schedulerName)
			c.requireLease(t, test.own, test.lease)
			requireStopped(t, process)

			h.uninstall()
			if test.lease == "kube-scheduler" {
				// It is kube-scheduler's as well, which goes on with it.
				require.True(t, c.exists(t, leases, "kube-system", "kube-scheduler"))
				require.NoError(t, c.client.CoordinationV1().Leases("kube-system").Delete(t.Context(), "kube-scheduler", metav1.DeleteOptions{}))
			}
			c.requireLeft(t, before)
		})
	}
}

// TestInstalledGuardRuns: the guard alone, without a scheduler of ours, runs as it is installed. What it makes itself (its Lease, its
// Secret) goes with the namespace that the chart has made.
func TestInstalledGuardRuns(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, "guard", releaseNamespace)
	h.mustInstall(values{"mode": "none", "guard": values{"enabled": true, "extraArgs": quickly("--")}})
	process := c.run(t, "quartermaster-guard", "quartermaster-guard")
	c.requireGuard(t)
	requireStopped(t, process)
	h.uninstall()
	c.requireLeft(t, before)
}

// TestInstalledGuardInSchedulerRuns: the same for a scheduler that is the guard as well.
func TestInstalledGuardInSchedulerRuns(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	h.mustInstall(values{"guard": values{"enabled": true, "inScheduler": true, "extraArgs": quickly("--guard-")}})
	process := c.run(t, releaseNamespace, "quartermaster", "--guard-bind-address=127.0.0.1", "--guard-secure-port="+freePort(t))
	c.requireGuard(t)
	requireStopped(t, process)
	h.uninstall()
	c.requireLeft(t, before)
}

// TestUninstallWhileItRuns: a scheduler and a guard that end late make nothing again of what is gone.
func TestUninstallWhileItRuns(t *testing.T) {
	c := onCluster(t)
	before := c.names(t)
	h := c.helm(t, releaseName, releaseNamespace)
	h.mustInstall(values{"guard": values{"enabled": true, "extraArgs": quickly("--")}})
	ours, guard := c.run(t, releaseNamespace, "quartermaster"), c.run(t, "quartermaster-guard", "quartermaster-guard")
	c.requireLease(t, releaseNamespace, "quartermaster")
	c.requireGuard(t)
	h.uninstall()
	c.requireLeft(t, before)
	requireRefused(t, ours)
	requireRefused(t, guard)
	require.NoError(t, ours.Stop())
	require.NoError(t, guard.Stop())
	c.requireLeft(t, before)
}

// requireRefused waits until a process whose account or rights are gone has tried to renew its Lease, and says that it could not.
func requireRefused(t *testing.T, process *scheduler.Process) {
	t.Helper()
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		lines, err := process.LogLines("ease")
		require.NoError(try, err)
		require.True(try, slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, "orbidden") || strings.Contains(line, "nauthorized") || strings.Contains(line, "not found")
		}))
	}, patience, poll, "it has not tried to renew its Lease, see %s", process.LogFile())
}
