package controlplane

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// testControllers checks the life of pods and claims as far as it goes
// without a scheduler and nodes.
func testControllers(t *testing.T, c *ControlPlane) {
	ctx, client := t.Context(), admin(t, c)
	const ns = "controllers"
	newNamespace(t, client, ns)
	createDeployment(t, client, ns, "web", 3)
	createJob(t, client, ns, "train", nil)
	eventually(t, "pods of a deployment and of a job", func(ctx context.Context) error {
		return wantPods(ctx, client, ns, map[string]int{"web": 3, "train": 1})
	})

	createClaimTemplate(t, client, ns, "one-gpu")
	createPod(t, client, claimingPod(ns, "claimer", "one-gpu"))
	var claim string
	eventually(t, "a claim for the pod", func(ctx context.Context) error {
		var err error
		claim, err = generatedClaim(ctx, client, ns, "claimer")
		return err
	})
	got, err := client.ResourceV1().ResourceClaims(ns).Get(ctx, claim, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, metav1.IsControlledBy(got, getPod(t, client, ns, "claimer")), "owner: %v", got.OwnerReferences)

	// The pod was never bound, so that it goes at once; the garbage collector
	// takes what it owned.
	require.NoError(t, client.CoreV1().Pods(ns).Delete(ctx, "claimer", metav1.DeleteOptions{}))
	eventually(t, "the claim goes with its pod", func(ctx context.Context) error {
		_, err := client.ResourceV1().ResourceClaims(ns).Get(ctx, claim, metav1.GetOptions{})
		return wantNotFound(err)
	})
	require.NoError(t, client.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}))
	eventually(t, "the namespace goes with all that is in it", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return wantNotFound(err)
	})
}

// testDeviceTaintEviction checks that a DeviceTaintRule evicts a pod that uses
// the device. The test plays the parts of driver and scheduler.
func testDeviceTaintEviction(t *testing.T, c *ControlPlane) {
	ctx, client := t.Context(), admin(t, c)
	const ns, node, driver = "eviction", "eviction-node", "gpu.example.com"
	newNamespace(t, client, ns)
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node),
			Pool:    resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0"}},
		},
	}
	_, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
	require.NoError(t, err)
	createClaimTemplate(t, client, ns, "one-gpu")
	pod := createPod(t, client, claimingPod(ns, "victim", "one-gpu"))
	eventually(t, "allocate and bind", func(ctx context.Context) error {
		claimName, err := generatedClaim(ctx, client, ns, pod.Name)
		if err != nil {
			return err
		}
		claim, err := client.ResourceV1().ResourceClaims(ns).Get(ctx, claimName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: node, Device: "gpu-0"}},
		}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
		_, err = client.ResourceV1().ResourceClaims(ns).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	// There is no such node, so that the pod, once evicted, stays to be seen.
	bind(t, client, ns, pod.Name, node)

	rule := &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "broken"},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(driver), Pool: ptr.To(node), Device: ptr.To("gpu-0")},
			Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute},
		},
	}
	_, err = client.ResourceV1().DeviceTaintRules().Create(ctx, rule, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the pod is told to go", func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && (pod.DeletionTimestamp == nil || !hasCondition(pod, corev1.DisruptionTarget)) {
			err = fmt.Errorf("pod is not evicted, conditions: %+v", pod.Status.Conditions)
		}
		return err
	})
	require.NoError(t, client.ResourceV1().DeviceTaintRules().Delete(ctx, rule.Name, metav1.DeleteOptions{}))
}

func createDeployment(t *testing.T, client kubernetes.Interface, ns, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	_, err := client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// createJob makes a job of one pod, on a node if one is given.
func createJob(t *testing.T, client kubernetes.Interface, ns, name string, node *string) {
	t.Helper()
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.NodeName = ptr.Deref(node, "")
	_, err := client.BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: spec}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func createClaimTemplate(t *testing.T, client kubernetes.Interface, ns, name string) {
	t.Helper()
	_, err := client.ResourceV1().ResourceClaimTemplates(ns).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			}}},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}}
}

func claimingPod(ns, name, template string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: podSpec()}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To(template)}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return pod
}

func createPod(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	created, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

func getPod(t *testing.T, client kubernetes.Interface, ns, name string) *corev1.Pod {
	t.Helper()
	pod, err := client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}

func bind(t *testing.T, client kubernetes.Interface, ns, pod, node string) {
	t.Helper()
	err := client.CoreV1().Pods(ns).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// generatedClaim is the name of the claim that was made for a pod's only entry.
func generatedClaim(ctx context.Context, client kubernetes.Interface, ns, pod string) (string, error) {
	p, err := client.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if statuses := p.Status.ResourceClaimStatuses; len(statuses) == 1 && statuses[0].ResourceClaimName != nil {
		return *statuses[0].ResourceClaimName, nil
	}
	return "", fmt.Errorf("pod %s has claim statuses %v", pod, p.Status.ResourceClaimStatuses)
}

// wantPods checks how many pods there are for each value of the label "app".
func wantPods(ctx context.Context, client kubernetes.Interface, ns string, want map[string]int) error {
	for app, count := range want {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		if len(pods.Items) != count {
			return fmt.Errorf("%s has %d pods, not %d", app, len(pods.Items), count)
		}
	}
	return nil
}

func wantNotFound(err error) error {
	if err == nil {
		return fmt.Errorf("it is still there")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
