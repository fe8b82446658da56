package choose

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestCosts: nodes without victims come first, then those where single pods go, then those where gangs go.
func TestCosts(t *testing.T) {
	t.Parallel()
	on := func(nodes ...string) (pods []*v1.Pod) {
		for _, node := range nodes {
			pods = append(pods, &v1.Pod{Spec: v1.PodSpec{NodeName: node}})
		}
		return pods
	}
	costs := CostsOf([]*Unit{
		{Pods: on("gang", "both", "gang"), Core: true}, {Pods: on("both")}, {Pods: on("single")}, {Pods: on("two")}, {Pods: on("two")},
	})
	nodes := []string{"gang", "both", "two", "single", "free"}
	slices.SortStableFunc(nodes, costs.Compare)
	require.Equal(t, []string{"free", "single", "two", "both", "gang"}, nodes)
}
