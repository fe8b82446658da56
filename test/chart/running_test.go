package chart

import (
	"context"
	"encoding/base64"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// kubeconfigOf is a kubeconfig with a token of a ServiceAccount that is installed.
func (c *controlPlane) kubeconfigOf(t *testing.T, namespace, account string) string {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: c.config.Host, CertificateAuthorityData: c.config.CAData, CertificateAuthority: c.config.CAFile}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*file, path))
	return path
}

// run runs the program of a Deployment that is installed, as its pods would be: under its account, with its arguments and
// its configuration, as far as these are in the cluster. What a kubelet would see to is left out: it needs no --config of a file in
// the image.
func (c *controlPlane) run(t *testing.T, namespace, name string, more ...string) *scheduler.Process {
	t.Helper()
	deployment, err := c.client.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	spec := deployment.Spec.Template.Spec
	program, err := binary(strings.TrimPrefix(spec.Containers[0].Command[0], "/"))
	require.NoError(t, err)
	kubeconfig := c.kubeconfigOf(t, namespace, spec.ServiceAccountName)
	options := scheduler.Options{Binary: program, Kubeconfig: kubeconfig, Flags: true, LogFile: filepath.Join(t.TempDir(), name+".log")}
	for _, argument := range spec.Containers[0].Command[1:] {
		if !strings.HasPrefix(argument, "--config=") {
			options.ExtraArgs = append(options.ExtraArgs, argument)
			continue
		}
		file := strings.TrimPrefix(argument, "--config=")
		require.Equal(t, spec.Containers[0].VolumeMounts[0].MountPath, filepath.Dir(file))
		config, err := c.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), spec.Volumes[0].ConfigMap.Name, metav1.GetOptions{})
		require.NoError(t, err)
		options.Config, options.Flags = []byte(config.Data[filepath.Base(file)]), false
		options.ExtraArgs = append(options.ExtraArgs, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	}
	options.ExtraArgs = append(options.ExtraArgs, more...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	process, err := scheduler.Start(ctx, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, process.Stop()) })
	return process
}

// requireStopped ends a process. Whatever it asked for it was allowed.
func requireStopped(t *testing.T, process *scheduler.Process) {
	t.Helper()
	require.NoError(t, process.Stop())
	refused, err := process.LogLines("forbidden")
	require.NoError(t, err)
	require.Empty(t, refused)
}

// schedule has a pod with a claim for a device scheduled, and takes both away again.
func (c *controlPlane) schedule(t *testing.T, schedulerName string) {
	t.Helper()
	ctx, pods, claims := t.Context(), c.client.CoreV1().Pods("default"), c.client.ResourceV1().ResourceClaims("default")
	classes, err := c.client.ResourceV1().DeviceClasses().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, classes.Items, 1)
	_, err = claims.Create(ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "device"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "device", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: classes.Items[0].Name}}}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	claim := "device"
	_, err = pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "user"},
		Spec: corev1.PodSpec{
			SchedulerName:  schedulerName,
			ResourceClaims: []corev1.PodResourceClaim{{Name: claim, ResourceClaimName: &claim}},
			Containers:     []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: claim}}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		pod, err := pods.Get(ctx, "user", metav1.GetOptions{})
		require.NoError(try, err)
		require.NotEmpty(try, pod.Spec.NodeName)
	}, patience, poll, "the pod is not bound")
	allocated, err := claims.Get(ctx, claim, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, allocated.Status.Allocation.Devices.Results, 1)

	require.NoError(t, pods.Delete(ctx, "user", metav1.DeleteOptions{}))
	require.NoError(t, claims.Delete(ctx, claim, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := claims.Get(ctx, claim, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, patience, poll, "the claim stays")
}

// requireLease waits for a Lease with a holder.
func (c *controlPlane) requireLease(t *testing.T, namespace, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		lease, err := c.client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	}, patience, poll, "nobody holds Lease %s/%s", namespace, name)
}

// lead runs the program of a Deployment until it holds its Lease, and ends it. The Lease stays: a process is ready before it has that.
func (c *controlPlane) lead(t *testing.T, namespace, name string) {
	t.Helper()
	process := c.run(t, namespace, name)
	c.requireLease(t, namespace, name)
	requireStopped(t, process)
	require.True(t, c.exists(t, leases, namespace, name))
}

// quickly are flags by which a guard does not wait for the 15 seconds of a Lease before it decides for the first time.
func quickly(prefix string) []any {
	return []any{prefix + "leader-elect-lease-duration=3s", prefix + "leader-elect-renew-deadline=2s", prefix + "leader-elect-retry-period=500ms"}
}

// requireGuard waits until a guard has made what it makes itself: its Lease, the Secret with its certificate authority, and that in its
// webhook configuration.
func (c *controlPlane) requireGuard(t *testing.T) (authority string) {
	t.Helper()
	c.requireLease(t, "quartermaster-guard", "quartermaster-guard")
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		configuration, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "quartermaster-guard", metav1.GetOptions{})
		require.NoError(try, err)
		authority = base64.StdEncoding.EncodeToString(configuration.Webhooks[0].ClientConfig.CABundle)
		require.NotEmpty(try, authority)
	}, patience, poll, "the guard has not put its certificate authority into its webhook configuration")
	_, err := c.client.CoreV1().Secrets("quartermaster-guard").Get(t.Context(), "quartermaster-guard-ca", metav1.GetOptions{})
	require.NoError(t, err)
	return authority
}

// freePort is a port of this machine that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return port
}
