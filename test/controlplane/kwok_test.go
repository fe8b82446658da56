package controlplane

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// testSimulatedNodes checks the life of a node and of the pods on it. The test
// plays the scheduler's part. It starts the simulation twice: the second one
// must not wait for what the first one has left. The second one goes on until
// lasting ends.
func testSimulatedNodes(lasting context.Context, t *testing.T, c *ControlPlane) {
	client := admin(t, c)
	newNamespace(t, client, "simulated")

	ctx, end := context.WithCancel(t.Context())
	require.NoError(t, c.StartSimulatedNodes(ctx))
	require.ErrorContains(t, c.StartSimulatedNodes(ctx), "runs already")
	createSimulatedNode(t, client, "node-0")
	waitNodeReady(t, client, "node-0")
	end()
	<-c.nodes.process.done

	require.NoError(t, c.StartSimulatedNodes(lasting))
	createSimulatedNode(t, client, "node-1")
	waitNodeReady(t, client, "node-1")
	eventually(t, "the node's heartbeat", func(ctx context.Context) error {
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "node-1", metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime == nil {
			err = fmt.Errorf("the lease was never renewed")
		}
		return err
	})
	for _, node := range []string{"node-0", "node-1"} {
		t.Run("pods on "+node, func(t *testing.T) { testPodsOn(t, client, "simulated", node) })
	}
	require.NoError(t, c.Err(), "the first simulation ended because it was told to")
}

// testNodeLifecycle checks that a node is unusable until it is ready, if the
// option NodeLifecycle is on.
func testNodeLifecycle(t *testing.T, c *ControlPlane) {
	client := admin(t, c)
	createSimulatedNode(t, client, "watched")
	node, err := client.CoreV1().Nodes().Get(t.Context(), "watched", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, node.Spec.Taints, "admission taints a new node")
	require.NoError(t, c.StartSimulatedNodes(t.Context()))
	eventually(t, "the ready node loses its taints", func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, "watched", metav1.GetOptions{})
		if err == nil && len(node.Spec.Taints) > 0 {
			err = fmt.Errorf("taints: %v", node.Spec.Taints)
		}
		return err
	})
}

func testPodsOn(t *testing.T, client kubernetes.Interface, ns, node string) {
	server, job := "server-"+node, "job-"+node
	createPod(t, client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: server}, Spec: podSpec()})
	bind(t, client, ns, server, node)
	createJob(t, client, ns, job, ptr.To(node))

	eventually(t, "the job completes", func(ctx context.Context) error {
		got, err := client.BatchV1().Jobs(ns).Get(ctx, job, metav1.GetOptions{})
		if err == nil && got.Status.Succeeded != 1 {
			err = fmt.Errorf("job status: %+v", got.Status)
		}
		return err
	})
	eventually(t, "the server runs", func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(ns).Get(ctx, server, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || !hasCondition(pod, corev1.PodReady) {
			return fmt.Errorf("pod status: %+v", pod.Status)
		}
		return nil
	})
	require.True(t, hasCondition(getPod(t, client, ns, server), corev1.PodScheduled), "the simulation keeps others' conditions")

	require.NoError(t, client.CoreV1().Pods(ns).Delete(t.Context(), server, metav1.DeleteOptions{}))
	require.NoError(t, client.BatchV1().Jobs(ns).Delete(t.Context(), job,
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	eventually(t, "deleted pods vanish", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return err
	})
}

func createSimulatedNode(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{SimulatedNodeAnnotation: SimulatedNodeValue},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func waitNodeReady(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	eventually(t, "node "+name+" becomes ready", func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && !node.Status.Allocatable.Cpu().IsZero() {
				return nil
			}
		}
		return fmt.Errorf("node status: %+v", node.Status)
	})
}

// hasCondition says whether a condition of a pod is true.
func hasCondition(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
