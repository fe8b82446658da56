package alpha

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// A pod with a claim is to be resized on its node, where there is no room: with the gate,
// the scheduler makes room by preemption (KEP-1287). The pod is in its queue for that
// alone; its devices stay as they are.
func TestResizeThatHasToWait(t *testing.T) {
	t.Parallel()
	s := newSpaceWithout(t, "resize", 1, map[string]bool{"InPlacePodVerticalScalingSchedulerPreemption": true})
	classes := s.Cluster.Client.SchedulingV1().PriorityClasses()
	s.Cluster.PriorityClass(t, s.Name, 1000)
	t.Cleanup(func() { require.NoError(t, classes.Delete(context.Background(), s.Name, metav1.DeleteOptions{})) })
	s.Devices(0, harness.Numbered(2)...)
	cpus := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	victim := s.Pod("victim", nil)
	victim.Spec.Containers[0].Resources.Requests = cpus("20")
	victim.Spec.TerminationGracePeriodSeconds = new(int64)
	grows := s.Pod("grows", builder.Uses("device"))
	grows.Spec.Containers[0].Resources.Requests = cpus("8")
	grows.Spec.PriorityClassName = s.Name
	s.Create(victim, builder.Claim("device", s.Want(1)).Obj(), grows)
	s.Running("victim", "grows")
	before := s.LiveClaim("device")

	pods := s.Cluster.Client.CoreV1().Pods(s.Name)
	// There is no kubelet that would say what the containers have, nor find out below that
	// the node is too small.
	s.Eventually("report what the container has", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "grows", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[i]
			status.AllocatedResources, status.Resources = cpus("8"), &corev1.ResourceRequirements{Requests: cpus("8")}
		}
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
	s.Eventually("ask for more CPUs", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "grows", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Spec.Containers[0].Resources.Requests = cpus("20")
		_, err = pods.UpdateResize(ctx, "grows", pod, metav1.UpdateOptions{})
		return err
	})
	s.Eventually("defer the resize", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "grows", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred,
			ObservedGeneration: pod.Generation,
		})
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
	s.Gone("victim")
	after := s.LiveClaim("device")
	require.Empty(t, cmp.Diff(before.Status, after.Status))
	require.Equal(t, before.ResourceVersion, after.ResourceVersion, "nobody has written it")
	require.Equal(t, s.Node(0), s.LivePod("grows").Spec.NodeName)
	s.ClaimAndPod("other", s.Want(1))
	s.Running("other")
}
