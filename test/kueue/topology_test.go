package kueue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

const rackLabel = "topology.example.com/rack"

// topology has Kueue choose racks and nodes.
const topology = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec:
  levels:
  - {nodeLabel: ` + rackLabel + `}
  - {nodeLabel: kubernetes.io/hostname}
`

// inOneRack has Kueue keep the pods of a Job in one rack.
func inOneRack(job *batchv1.Job) {
	job.Spec.Template.Annotations["kueue.x-k8s.io/podset-required-topology"] = rackLabel
}

// newTopologySpace is newSpace with two nodes a rack, for Kueue to choose. With apart, the devices are in a flavor without topology.
func newTopologySpace(t *testing.T, name string, apart bool, devices ...int) *space {
	t.Helper()
	apply(t, []byte(topology))
	s := newSpace(t, name, queueOptions{quota: 10, topology: "racks", apart: apart}, devices...)
	for node := range devices {
		s.LabelNode(node, rackLabel, fmt.Sprintf("%s-rack-%d", s.Name, node/2))
	}
	return s
}

// testTopologyTogether: Kueue looks for the devices of claims among the resources of nodes if their flavor has a topology. It finds none
// there, and admits nothing.
func testTopologyTogether(t *testing.T) {
	s := newTopologySpace(t, "topology-together", false, 1)
	s.job("job", 1, inOneRack)
	s.says("job", "QuotaReserved", "False", "Pending", "Workload no longer fits after processing another workload")
	s.suspended("job")
	// Kueue tries it as often as it can.
	background := metav1.DeletePropagationBackground
	require.NoError(t, cluster.Client.BatchV1().Jobs(s.Name).Delete(t.Context(), "job", metav1.DeleteOptions{PropagationPolicy: &background}))
}

// testTopology: Kueue chooses racks by the CPUs of nodes, and Quartermaster hands out the devices there. Pods that ask for as large a part
// of the CPUs as of the devices get both.
func testTopology(t *testing.T) {
	s := newTopologySpace(t, "topology", true, 1, 1, 1, 1)
	var racks []string
	for _, job := range []string{"first", "second"} {
		s.job(job, 2, inOneRack, func(job *batchv1.Job) {
			job.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("20") // Of 32.
		})
		found := s.racksOf(s.runs(job, 2))
		require.Equal(t, found[0], found[1], "job %s is in one rack", job)
		racks = append(racks, found[0])
	}
	require.NotEqual(t, racks[0], racks[1])
}

// racksOf returns the rack of each pod.
func (s *space) racksOf(pods []string) (racks []string) {
	s.T.Helper()
	for _, pod := range pods {
		node, err := cluster.Client.CoreV1().Nodes().Get(s.T.Context(), s.LivePod(pod).Spec.NodeName, metav1.GetOptions{})
		require.NoError(s.T, err)
		racks = append(racks, node.Labels[rackLabel])
	}
	return racks
}

// testTopologyTaken: Kueue does not know which devices are in use. It chooses the same node again until a device is free there, although
// another rack has one.
func testTopologyTaken(t *testing.T) {
	s := newTopologySpace(t, "topology-taken", true, 1, 0, 1, 1)
	s.outsider("outsider", 1, s.onNode(0))
	s.job("job", 1, inOneRack)
	s.waits("job", 1, "held by")
	s.requeued("job", 2)
	s.awaitJob("wait for the same node", "job", 1, func(pod *corev1.Pod) error {
		if node := pod.Spec.NodeSelector[corev1.LabelHostname]; node != s.Node(0) {
			return fmt.Errorf("Kueue chose node %q", node)
		}
		return harness.Waits(pod, "held by")
	})
	s.gone("outsider")
	s.runs("job", 1)
}
