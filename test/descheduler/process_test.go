package descheduler

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

const (
	// binary is the descheduler's executable in bin.
	binary = "descheduler"
	// account is its service account in its own manifests.
	account = "descheduler-sa"
	// withClaims is its protection of pods that use claims.
	withClaims = "PodsWithResourceClaims"
)

// kubeconfig is the path of the descheduler's identity. install sets it.
var kubeconfig string

// install creates the descheduler's identity, with the rights of its own manifests.
func install(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.ModuleFolder(t, "sigs.k8s.io/descheduler", "descheduler"), "kubernetes", "base", "rbac.yaml"))
	require.NoError(t, err)
	objects, err := scenario.Decode([]byte(strings.TrimPrefix(string(text), "---\n")))
	require.NoError(t, err)
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *corev1.ServiceAccount:
			_, err = cluster.Client.CoreV1().ServiceAccounts(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			_, err = cluster.Client.RbacV1().ClusterRoles().Create(t.Context(), o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = cluster.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), o, metav1.CreateOptions{})
		default: // The others are for Prometheus.
		}
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
	}
	kubeconfig, err = cluster.ControlPlane.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, account)
	require.NoError(t, err)
}

// policy is a policy of the descheduler with one plugin. It concerns the nodes of one space.
type policy struct {
	// plugin says which pods are evicted, with these arguments.
	plugin string
	args   map[string]any
	// protection, unless it is empty, is of pods that are not evicted, besides the protections that are on by default.
	protection string
	// nodeFit spares pods that fit on no other node, as far as the descheduler knows.
	nodeFit bool
	// limit, unless it is 0, is the largest number of pods that are evicted in one run.
	limit int
}

// violatingTaints is the policy to evict pods from nodes whose taints they do not tolerate, if another node takes them.
var violatingTaints = policy{plugin: "RemovePodsViolatingNodeTaints", nodeFit: true}

// protecting is the policy with a protection.
func (p policy) protecting(protection string) policy {
	p.protection = protection
	return p
}

// limitedTo is the policy with a limit.
func (p policy) limitedTo(limit int) policy {
	p.limit = limit
	return p
}

// extensionPoint is where the plugin runs.
func (p policy) extensionPoint() string {
	if slices.Contains([]string{"HighNodeUtilization", "LowNodeUtilization", "RemoveDuplicates"}, p.plugin) {
		return "balance"
	}
	return "deschedule"
}

// file writes the policy for the nodes of a space.
func (p policy) file(s *space) string {
	s.T.Helper()
	args, evictor := p.args, map[string]any{"nodeFit": p.nodeFit}
	if args == nil {
		args = map[string]any{}
	}
	switch {
	case p.protection == withClaims && p.nodeFit:
		evictor = documentedEvictor(s)
	case p.protection != "":
		evictor["podProtections"] = map[string]any{"extraEnabled": []string{p.protection}}
	}
	content := map[string]any{
		"apiVersion":   "descheduler/v1alpha2",
		"kind":         "DeschedulerPolicy",
		"nodeSelector": fleet.NodePoolLabel + "=" + s.Name,
		"profiles": []any{map[string]any{
			"name": "test",
			"pluginConfig": []any{
				map[string]any{"name": "DefaultEvictor", "args": evictor},
				map[string]any{"name": p.plugin, "args": args},
			},
			"plugins": map[string]any{p.extensionPoint(): map[string]any{"enabled": []string{p.plugin}}},
		}},
	}
	if p.limit > 0 {
		content["maxNoOfPodsToEvictTotal"] = p.limit
	}
	text, err := yaml.Marshal(content)
	require.NoError(s.T, err)
	path := filepath.Join(s.T.TempDir(), "policy.yaml")
	require.NoError(s.T, os.WriteFile(path, text, 0o600))
	return path
}

// arguments are the descheduler's for a policy. Without an interval, it runs once.
func (p policy) arguments(s *space, more ...string) []string {
	return append([]string{
		"--kubeconfig=" + kubeconfig, "--policy-config-file=" + p.file(s), "--secure-port=0",
		"--client-connection-qps=500", "--client-connection-burst=1000", "-v=4",
	}, more...)
}

// deschedule runs the descheduler once, and returns the names of the pods of the space that it evicted.
func (s *space) deschedule(p policy) (evicted []string) {
	s.T.Helper()
	path, err := controlplane.FindBinary(binary)
	require.NoError(s.T, err)
	log, err := os.OpenFile(s.deschedulerLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.T, err)
	defer log.Close()
	before := s.live()
	command := exec.CommandContext(s.T.Context(), path, p.arguments(s)...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = controlplane.ChildAttributes()
	require.NoError(s.T, command.Run(), "the log is %s", log.Name())
	after := s.live()
	for _, pod := range before {
		if !slices.Contains(after, pod) {
			evicted = append(evicted, pod)
			s.leaves(pod)
		}
	}
	return evicted
}

// descheduleAlways runs the descheduler again and again until the end of the test.
func (s *space) descheduleAlways(p policy) {
	s.T.Helper()
	cluster.RunBinary(s.T, binary, filepath.Base(s.deschedulerLog()), nil, p.arguments(s, "--descheduling-interval=200ms")...)
}

// evictionsOf returns how often the descheduler has evicted a pod, by its log.
func (s *space) evictionsOf(pod string) int {
	s.T.Helper()
	log, err := os.ReadFile(s.deschedulerLog())
	require.NoError(s.T, err)
	return strings.Count(string(log), `"Evicted pod" pod="`+s.Name+"/"+pod+`"`)
}

// deschedulerLog is the path of the log of all runs for the space.
func (s *space) deschedulerLog() string {
	return filepath.Join(cluster.Logs, "descheduler-"+s.Name+".log")
}

// documentedEvictor returns the arguments of the plugin DefaultEvictor as docs/neighbours.md has them.
func documentedEvictor(s *space) map[string]any {
	s.T.Helper()
	var documented struct {
		PluginConfig []struct {
			Name string         `json:"name"`
			Args map[string]any `json:"args"`
		} `json:"pluginConfig"`
	}
	harness.Documented(s.T, "With the descheduler", &documented)
	require.Len(s.T, documented.PluginConfig, 1)
	require.Equal(s.T, "DefaultEvictor", documented.PluginConfig[0].Name)
	return documented.PluginConfig[0].Args
}
