package eligibility_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// BenchmarkDescribe describes a gang of 1,000 pods in a cluster of 5,000 nodes that have huge pages, as most nodes do.
func BenchmarkDescribe(b *testing.B) {
	c := &cluster{}
	for i := range 5000 {
		node := builder.Node(fmt.Sprint("n", i))
		node.Status.Allocatable = builder.Resources("hugepages-1Gi", "0", "hugepages-2Mi", "0", "cpu", "8", "pods", "10")
		c.nodes = append(c.nodes, node)
	}
	pods := make([]*v1.Pod, 1000)
	for i := range pods {
		pods[i] = asking("1")
	}
	describer := c.describer()
	for b.Loop() {
		d := *describer
		for _, pod := range pods {
			_, err := d.Describe(pod)
			require.NoError(b, err)
		}
	}
}
