package kubectldevices

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl"
	"github.com/quartermaster-dra/quartermaster/test/playground"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// patience is how long the demo waits for anything, and how long the test does.
const patience = 3 * time.Minute

// TestInDemo runs commands when the scenarios of the demo are done, and their objects still there.
func TestInDemo(t *testing.T) {
	dialect, err := catalogue.DialectNamed("quartermaster")
	require.NoError(t, err)
	ran := false
	var told bytes.Buffer
	err = playground.RunDemo(t.Context(), playground.DemoOptions{
		Cluster: playground.ClusterOptions{Dir: t.TempDir()}, Dialect: dialect, Patience: patience,
		Finished: func(c *playground.Cluster, _ scenario.Tally) {
			ran = true
			demo := &demo{kubeconfig: c.Kubeconfig(), client: c.Client}
			t.Run("overview", demo.overview)
			t.Run("list", demo.list)
			t.Run("holders", demo.holders)
			t.Run("questions", demo.questions)
			t.Run("dump", demo.dump)
			t.Run("little rights", demo.littleRights)
			t.Run("plugin", demo.plugin)
			t.Run("map", demo.webMap)
			t.Run("watch", demo.watch)
			t.Run("metrics", func(t *testing.T) { metrics(t, c.MetricsCommand()) })
		},
	}, &told)
	require.NoError(t, err, &told)
	require.True(t, ran)
}

// demo is the cluster of the demo.
type demo struct {
	kubeconfig string
	client     kubernetes.Interface
}

// run runs a command, and returns what it prints.
func (d *demo) run(t require.TestingT, args ...string) (out, errOut string) {
	var stdout, stderr bytes.Buffer
	command := kubectl.New(genericiooptions.IOStreams{In: new(bytes.Buffer), Out: &stdout, ErrOut: &stderr})
	command.SetArgs(append(args, "--kubeconfig", d.kubeconfig))
	require.NoError(t, command.ExecuteContext(context.Background()), stderr.String())
	return stdout.String(), stderr.String()
}

// line returns the line that begins with a text.
func line(t *testing.T, text, begin string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), begin) {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	t.Fatalf("no line begins with %q in\n%s", begin, text)
	return ""
}

func (d *demo) overview(t *testing.T) {
	out, errOut := d.run(t, "-o", "wide")
	require.Empty(t, errOut, "nothing is missing")
	require.Contains(t, line(t, out, "shared-nic-0"), "bandwidth 250 of 400")
	require.Contains(t, line(t, out, "partitioned-gpu-0"), "memory 0 of 80Gi")
	require.Contains(t, out, "is incomplete: ")
	require.Contains(t, out, "is invalid: ")
	out, _ = d.run(t)
	require.LessOrEqual(t, strings.Count(out, "\n"), 100, "a line for each of the 119 nodes would be more: %s", out)
	require.Contains(t, out, " nodes like ")
}

func (d *demo) list(t *testing.T) {
	out, _ := d.run(t, "list", "--node", "shared-nic-0")
	require.Contains(t, out, "nic-0")
	require.Contains(t, out, "Shared")
	out, _ = d.run(t, "list", "--node", "partitioned-gpu-0", "--attributes", "partition", "-o", "wide")
	require.Contains(t, line(t, out, "partitioned-gpu-0/whole"), "Allocated partitioned-gpu/whole whole")
	require.Contains(t, line(t, out, "partitioned-gpu-0/half-0"), "Unavailable")
	out, _ = d.run(t, "list", "--node", "partitioned-gpu-0", "--cel", `device.attributes["`+fleet.GPUDriver+`"].partition == "half"`)
	require.Equal(t, 3, strings.Count(out, "\n"), "a header and two devices: %s", out)
	out, _ = d.run(t, "list", "-l", "kubernetes.io/hostname=partitioned-gpu-0", "-o", "name")
	require.Contains(t, out, "device/"+fleet.GPUDriver+"/partitioned-gpu-0/whole\n")
	out, _ = d.run(t, "list", "--node", "partitioned-gpu-0", "-o", "custom-columns=DEVICE:.device,STATE:.state")
	require.Contains(t, line(t, out, "whole"), "whole Allocated")
	out, _ = d.run(t, "list", "--node", "partitioned-gpu-0", "-o", "jsonpath={.items[*].state}")
	require.Contains(t, out, "Allocated")
}

func (d *demo) holders(t *testing.T) {
	out, _ := d.run(t, "holders", "-n", "shared-claim", "claim/shared")
	require.Equal(t, 8, strings.Count(out, "reserved for pod consumer-"), out)
	out, _ = d.run(t, "holders", "-n", "partitioned-gpu", "pod/whole")
	require.Contains(t, out, "Claim partitioned-gpu/whole: allocated")
	require.Contains(t, out, "/partitioned-gpu-0/whole")
	out, _ = d.run(t, "holders", "device/partitioned-gpu-0/whole")
	require.Contains(t, out, "pod whole on partitioned-gpu-0, Running")
	out, _ = d.run(t, "holders")
	require.NotContains(t, out, "held twice")
}

// questions are answered by the commands that say why, what if, and what more.
func (d *demo) questions(t *testing.T) {
	out, _ := d.run(t, "explain", "-n", "partitioned-gpu", "pod/whole")
	require.Contains(t, out, "Pod partitioned-gpu/whole is on node partitioned-gpu-0.")
	require.Contains(t, out, "/partitioned-gpu-0/whole")
	out, _ = d.run(t, "fragmentation")
	require.Contains(t, out, "How many more single devices fit, by class:")
	require.Contains(t, out, "How many more claims fit, like existing ones:")

	pods, err := d.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
	require.NoError(t, err)
	require.NotEmpty(t, pods.Items, "some scenarios end with pods that wait")
	for i := range pods.Items {
		pod := &pods.Items[i]
		out, _ = d.run(t, "explain", "pod/"+pod.Namespace+"/"+pod.Name)
		require.Contains(t, out, " waits for a node.")
		require.NotContains(t, out, "It fits on", "the scheduler would have found that")
	}
}

// dump looks at a dump with other names, and finds the same numbers.
func (d *demo) dump(t *testing.T) {
	file, hashed := filepath.Join(t.TempDir(), "dump"), filepath.Join(t.TempDir(), "hashed")
	d.run(t, "dump", "-f", file)
	d.run(t, "dump", "--hash-names", "-f", hashed)
	type overview struct {
		Drivers []any `json:"drivers"`
	}
	read := func(args ...string) (o overview) {
		out, _ := d.run(t, append(args, "-o", "json")...)
		require.NoError(t, json.Unmarshal([]byte(out), &o))
		return o
	}
	live := read()
	require.NotEmpty(t, live.Drivers)
	require.Equal(t, live, read("--from", file))
	require.Equal(t, live, read("--from", hashed))
	text, _ := d.run(t, "list", "-o", "json", "--from", hashed)
	require.NotContains(t, text, "partitioned-gpu-0")
}

// littleRights is somebody who may read slices and what is in one namespace.
func (d *demo) littleRights(t *testing.T) {
	ctx := t.Context()
	const namespace, user = "partitioned-gpu", "jane"
	subject := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	list := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{group}, Resources: resources}
	}
	cluster := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Rules: []rbacv1.PolicyRule{list("resource.k8s.io", "resourceslices", "deviceclasses")}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Rules: []rbacv1.PolicyRule{list("resource.k8s.io", "resourceclaims"), list("", "pods")}}
	rbac := d.client.RbacV1()
	_, err := rbac.ClusterRoles().Create(ctx, cluster, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "few"}, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "few"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "few"}, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "few"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	var out, errOut string
	// The authorizer learns of roles by watches, of one kind before the other.
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		out, errOut = d.run(try, "list", "-n", namespace, "--as", user, "-o", "wide")
		require.Contains(try, out, "partitioned-gpu-0/whole")
		require.Contains(try, errOut, "pods only in namespace "+namespace)
	}, patience, 200*time.Millisecond)
	require.Contains(t, errOut, "you may not list nodes, ")
	require.Contains(t, errOut, "you may list resourceclaims, pods only in namespace "+namespace)
	require.Contains(t, errOut, "devices shown as free may be in use")
	require.NotContains(t, errOut, "resourceslices")
	require.Contains(t, line(t, out, "partitioned-gpu-0/whole"), "Allocated")
	require.Equal(t, 1, strings.Count(errOut, "\n"), "one line says what may not be read: %s", errOut)
}

// lockedBuffer may be written and read at the same time.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.String()
}

// watch sees that the claim of a pod that ends is released.
func (d *demo) watch(t *testing.T) {
	var out, errOut lockedBuffer
	command := kubectl.New(genericiooptions.IOStreams{In: new(bytes.Buffer), Out: &out, ErrOut: &errOut})
	command.SetArgs([]string{"watch", "-n", "partitioned-gpu", "--kubeconfig", d.kubeconfig})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { return strings.Contains(errOut.String(), "Watching ") }, patience, 50*time.Millisecond)
	require.NoError(t, d.client.CoreV1().Pods("partitioned-gpu").Delete(ctx, "whole", *metav1.NewDeleteOptions(0)))
	require.Eventually(t, func() bool {
		return strings.Contains(out.String(), "Unreserved") && strings.Contains(out.String(), "Released")
	}, patience, 50*time.Millisecond)
	require.Contains(t, out.String(), "partitioned-gpu/whole")
	cancel()
	require.NoError(t, <-ended)
}
