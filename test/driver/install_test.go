package driver

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

const (
	pluginBinary     = "dra-example-kubeletplugin"
	controllerBinary = "dra-example-controller"
	// longestSocket is how many bytes the path of a Unix socket may have on Linux.
	longestSocket = 107
)

// options is how the driver is installed: what its chart calls deviceProfile, kubeletPlugin.numDevices and so on.
type options struct {
	profile string
	nodes   int
	// devices is how many GPUs or NICs a node has.
	devices int
	// environment is what the chart sets besides.
	environment map[string]string
	// extendedResource is the chart's deviceClass.extendedResourceName.
	extendedResource string
	// controller is one of the chart's controller.plugins; "" is none.
	controller string
	// slices is how many ResourceSlices a node has; 0 is one.
	slices int
}

func (o options) driver() string { return o.profile + ".example.com" }

// installation is the driver on some nodes, each with a kubelet.
type installation struct {
	t *testing.T
	options
	module   string
	kubelets []*kubelet
}

// install installs the driver until the end of the test.
func install(t *testing.T, o options) *installation {
	t.Helper()
	i := &installation{t: t, options: o, module: harness.ModuleFolder(t, driverModule, "driver")}
	i.createObjects()
	for n := range o.nodes {
		i.addNode(n)
	}
	if o.controller != "" {
		// It serves metrics at port 8080, and has no flag for another one.
		i.startProcess("controller", controllerBinary, nil,
			"--driver-name="+o.driver(), "--enable-plugin="+o.controller, "--kubeconfig="+i.kubeconfig(i.kubelets[0].node))
	}
	i.awaitSlices()
	return i
}

// createObjects creates the class of the driver, and its account with its rights.
func (i *installation) createObjects() {
	i.t.Helper()
	objects := chartObjects(i.t, i.module, i.driver(), i.extendedResource,
		"clusterrole.yaml", "clusterrolebinding.yaml", "deviceclass.yaml", "validatingadmissionpolicy.yaml", "validatingadmissionpolicybinding.yaml")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: accountNamespace, Name: accountName}}
	i.apply(append(objects, toObject(i.t, account, corev1.SchemeGroupVersion.WithKind(rbacv1.ServiceAccountKind)))...)
	i.t.Cleanup(func() { i.delete(objects...) })
}

// addNode adds a node with a kubelet and the driver's plugin.
func (i *installation) addNode(n int) {
	i.t.Helper()
	node := fleet.Node(fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(filepath.Base(i.t.Name()), "_", "-")), n), "driver", nil)
	node.Annotations = nil // KWOK is not to run its pods.
	_, err := cluster.Client.CoreV1().Nodes().Create(i.t.Context(), node, metav1.CreateOptions{})
	require.NoError(i.t, err)
	i.t.Cleanup(func() {
		require.NoError(i.t, cluster.Client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}))
	})
	folder, err := os.MkdirTemp("", "qm")
	require.NoError(i.t, err)
	i.t.Cleanup(func() { require.NoError(i.t, os.RemoveAll(folder)) })
	k := newKubelet(cluster, node.Name, folder)
	for _, each := range []string{k.registry(), k.dataOf(), k.cdi()} {
		require.NoError(i.t, os.MkdirAll(each, 0o700))
	}
	i.kubelets = append(i.kubelets, k)
	i.runKubelet(k)
	i.startPlugin(k)
}

// runKubelet runs the stand-in until the end of the test.
func (i *installation) runKubelet(k *kubelet) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.run(ctx) })
	i.t.Cleanup(func() {
		left := harness.Poll(context.Background(), harness.Patience, func(context.Context) error { return k.emptied() })
		cancel()
		running.Wait()
		require.NoError(i.t, left)
		require.Empty(i.t, k.problems)
		for _, plugin := range k.plugins {
			_ = plugin.connection.Close()
		}
		// As a kubelet does some time after a plugin is gone.
		require.NoError(i.t, cluster.Client.ResourceV1().ResourceSlices().DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + k.node}))
	})
}

// startPlugin runs the kubelet plugin of a node with the environment that the chart's DaemonSet gives it.
func (i *installation) startPlugin(k *kubelet) {
	i.t.Helper()
	const uid = "00000000-0000-0000-0000-000000000000"
	environment := map[string]string{
		"DRIVER_NAME": i.driver(), "DEVICE_PROFILE": i.profile, "NODE_NAME": k.node, "POD_UID": uid,
		"NUM_DEVICES": fmt.Sprint(i.devices), "CDI_ROOT": k.cdi(),
		"KUBELET_REGISTRAR_DIRECTORY_PATH": k.registry(), "KUBELET_PLUGINS_DIRECTORY_PATH": k.dataOf(),
		"KUBECONFIG": i.kubeconfig(k.node),
	}
	maps.Copy(environment, i.environment)
	longest := filepath.Join(k.registry(), i.driver()+"-"+uid+"-reg.sock")
	require.LessOrEqual(i.t, len(longest), longestSocket, "the path of socket %s is too long; set TMPDIR to a folder with a short path", longest)
	i.startProcess(k.node, pluginBinary, environment)
}

// kubeconfig returns the path of one with the token that a pod of the driver on a node has: it says which node it is.
func (i *installation) kubeconfig(node string) string {
	i.t.Helper()
	ctx := i.t.Context()
	pod, err := cluster.Client.CoreV1().Pods(accountNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "dra-example-driver-"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: accountName,
			Containers: []corev1.Container{{Name: "driver", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(i.t, err)
	i.t.Cleanup(func() {
		require.NoError(i.t, cluster.Client.CoreV1().Pods(accountNamespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	})
	token, err := cluster.Client.CoreV1().ServiceAccounts(accountNamespace).CreateToken(ctx, accountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	require.NoError(i.t, err)
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	require.NoError(i.t, err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(i.t.TempDir(), "kubeconfig")
	require.NoError(i.t, clientcmd.WriteToFile(*config, path))
	return path
}

// startProcess runs a binary of the driver until the end of the test.
func (i *installation) startProcess(name, binary string, environment map[string]string, arguments ...string) {
	i.t.Helper()
	var variables []string
	for _, key := range slices.Sorted(maps.Keys(environment)) {
		variables = append(variables, key+"="+environment[key])
	}
	cluster.RunBinary(i.t, binary, fmt.Sprintf("%s-%s.log", binary, name), variables, arguments...)
}

// awaitSlices waits until all nodes have registered the plugin, and the API server has all their slices.
func (i *installation) awaitSlices() {
	i.t.Helper()
	want := max(i.slices, 1)
	i.eventually(func(ctx context.Context) error {
		for _, k := range i.kubelets {
			if k.plugin(i.driver()) == nil {
				return fmt.Errorf("driver %s has not registered on node %s; its log is in %s", i.driver(), k.node, cluster.Logs)
			}
			slices, err := cluster.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + k.node})
			if err != nil {
				return err
			}
			if len(slices.Items) != want {
				return fmt.Errorf("node %s has %d slices, want %d", k.node, len(slices.Items), want)
			}
		}
		return nil
	})
}

// eventually polls until the condition returns nil.
func (i *installation) eventually(condition func(context.Context) error) {
	i.t.Helper()
	require.NoError(i.t, harness.Poll(i.t.Context(), harness.Patience, condition))
}
