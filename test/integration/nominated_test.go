package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// A pod with a claim gets a node nominated while others make room for it there, and
// then runs there, with a device of that node. A pod with higher priority that comes in
// between does not get in its way.
func TestNominatedNode(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "nominated", 2)
	classes := s.Cluster.Client.SchedulingV1().PriorityClasses()
	s.Cluster.PriorityClass(t, s.Name, 1000)
	t.Cleanup(func() { require.NoError(t, classes.Delete(context.Background(), s.Name, metav1.DeleteOptions{})) })
	s.Devices(1, numbered(2)...)
	s.Create(withCPUs(s.PodOnNode("victim", 1, nil), "20", ""))
	s.Running("victim")

	s.Create(builder.Claim("device", s.Want(1)).Obj(), withCPUs(s.Pod("preemptor", builder.Uses("device")), "20", s.Name))
	s.Gone("victim")
	s.Running("preemptor")
	require.Equal(t, s.Node(1), s.LivePod("preemptor").Spec.NodeName)
	require.Equal(t, []string{s.Node(1) + "/gpu-0"}, s.DeviceNames("preemptor"))

	// Preemption does not help where there are no devices.
	s.Create(withCPUs(s.PodOnNode("bystander", 0, nil), "20", ""))
	s.Running("bystander")
	s.Create(builder.Claim("other", s.Want(1)).Obj(), withCPUs(s.PodOnNode("elsewhere", 0, builder.Uses("other")), "20", s.Name))
	s.Waiting("elsewhere", "claim "+s.Name+"/other", "Preemption is not helpful for scheduling")
	s.Running("bystander")
}

// withCPUs makes a pod ask for CPUs, of which a node has 32, with a priority class.
func withCPUs(pod *corev1.Pod, cpus, priority string) *corev1.Pod {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	pod.Spec.PriorityClassName = priority
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	return pod
}
