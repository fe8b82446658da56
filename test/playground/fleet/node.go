package fleet

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// NodePoolLabel groups the nodes that belong together. A pod with this
	// label in its node selector runs only on them.
	NodePoolLabel = "playground.quartermaster/node-pool"
	// RackLabel names the rack of a node; the nodes of a rack share its network-attached devices.
	RackLabel = "topology.playground.quartermaster/rack"

	// kwokNodeAnnotation makes KWOK keep the node Ready and run its pods.
	kwokNodeAnnotation = "kwok.x-k8s.io/node"
)

// Node returns a simulated node of a node pool: 32 CPUs, 256 GiB of memory,
// room for 110 pods. KWOK reports its status once it exists.
func Node(name, nodePool string, labels map[string]string) *corev1.Node {
	all := map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
		NodePoolLabel:          nodePool,
		"type":                 "kwok",
	}
	maps.Copy(all, labels)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      all,
			Annotations: map[string]string{kwokNodeAnnotation: "fake"},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity.DeepCopy()},
	}
}
