package rbac

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const (
	// priorityClass is above that of other pods.
	priorityClass = "high"
	deviceClass   = "devices"
	// nodeLabel selects the node of a probe.
	nodeLabel = "example.com/probe"
	// The two kinds of volumes: those that exist, and those that have to be made.
	existingVolumes = "existing"
	newVolumes      = "new"
)

var errNoVolume = errors.New("the pod has no volume yet")

// prepare makes what the probes share: a node with devices, classes, and the right
// of all service accounts to read metrics.
func (e *environment) prepare(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	e.createNode(t, "shared", nil)
	_, err := e.client.ResourceV1().ResourceSlices().Create(ctx, builder.NodeSlice("shared", builder.NumberedDevices("device", 16)...).Obj(), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = e.client.ResourceV1().DeviceClasses().Create(ctx, builder.Class(deviceClass), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = e.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: priorityClass}, Value: 1000,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for name, provisioner := range map[string]string{existingVolumes: "kubernetes.io/no-provisioner", newVolumes: "example.com/provisioner"} {
		_, err = e.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	_, err = e.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// createNode makes a node with the label of a probe and one processor.
func (e *environment) createNode(t *testing.T, name string, change func(*corev1.Node)) {
	t.Helper()
	node := builder.Node(name, nodeLabel, name)
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("100")}
	node.Status.Allocatable = node.Status.Capacity
	if change != nil {
		change(node)
	}
	_, err := e.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
}

// newPod makes a pod for the shared node that is gone at once when it is deleted.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: builder.SchedulerName, TerminationGracePeriodSeconds: ptr.To[int64](0),
			NodeSelector: map[string]string{nodeLabel: "shared"},
			Containers:   []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
}

func (e *environment) createPod(t *testing.T, name string, changes ...func(*corev1.Pod)) {
	t.Helper()
	pod := newPod(name)
	for _, change := range changes {
		if change != nil {
			change(pod)
		}
	}
	_, err := e.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
}

// onlyOn is for pods of a probe with a node of its own.
func onlyOn(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector[nodeLabel] = node }
}

func needs(node, processors string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		onlyOn(node)(pod)
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(processors)}
	}
}

// podWithDevice is a pod whose claim has to be allocated.
func podWithDevice(t *testing.T, e *environment, name string) func(context.Context) error {
	claim := builder.Unsaved(namespace, builder.Claim(name, builder.Request("device", deviceClass)).Obj())
	_, err := e.client.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{})
	require.NoError(t, err)
	e.createPod(t, name, func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	})
	return e.isBound(name)
}

// podWithConflict is podWithDevice, while somebody else writes the claim as well:
// the scheduler has to read it again.
func podWithConflict(t *testing.T, e *environment, name string) func(context.Context) error {
	e.front.conflict("update resourceclaims/status.resource.k8s.io", name)
	return podWithDevice(t, e, name)
}

// podWithExtendedResource is a pod for which the scheduler has to make a claim.
func podWithExtendedResource(t *testing.T, e *environment, name string) func(context.Context) error {
	e.createPod(t, name, func(pod *corev1.Pod) {
		devices := corev1.ResourceList{corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + deviceClass): resource.MustParse("1")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: devices, Limits: devices}
	})
	return e.isBound(name)
}

// extendedResourceAgain is podWithExtendedResource, but the first attempt to bind the pod
// fails: the claim has to go.
func extendedResourceAgain(t *testing.T, e *environment, name string) func(context.Context) error {
	e.front.conflict("create pods/binding", name)
	return podWithExtendedResource(t, e, name)
}

// boundVolume is a pod with a volume that exists.
func boundVolume(t *testing.T, e *environment, name string) func(context.Context) error {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: existingVolumes, Capacity: storageOf("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/none"}},
		},
	}
	volumes := e.client.CoreV1().PersistentVolumes()
	_, err := volumes.Create(t.Context(), volume, metav1.CreateOptions{})
	require.NoError(t, err)
	// The controller that would say so does not run.
	harness.UpdateStatus(t, volumes, name, func(volume *corev1.PersistentVolume) { volume.Status.Phase = corev1.VolumeAvailable })
	e.podWithVolume(t, name, existingVolumes)
	return func(ctx context.Context) error {
		volumes, err := e.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, volume := range volumes.Items {
			if reference := volume.Spec.ClaimRef; reference != nil && reference.Name == name {
				return nil
			}
		}
		return errNoVolume
	}
}

// provisionedVolume is a pod with a volume that has to be made for its node.
func provisionedVolume(t *testing.T, e *environment, name string) func(context.Context) error {
	e.podWithVolume(t, name, newVolumes)
	return func(ctx context.Context) error {
		claim, err := e.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && claim.Annotations["volume.kubernetes.io/selected-node"] == "" {
			err = errNoVolume
		}
		return err
	}
}

func (e *environment) podWithVolume(t *testing.T, name, class string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: storageOf("1Gi")},
		},
	}
	_, err := e.client.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{})
	require.NoError(t, err)
	e.createPod(t, name, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
	})
}

func storageOf(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(quantity)}
}

// newToken returns the token of a service account that nobody has seen before.
func (e *environment) newToken(t *testing.T, name string) string {
	t.Helper()
	accounts := e.client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// getMetrics returns the HTTP status of a request for /metrics, and the answer.
func (e *environment) getMetrics(ctx context.Context, token string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+e.scheduler.Address()+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	// The scheduler makes itself a certificate that nobody knows.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
