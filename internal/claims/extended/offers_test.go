package extended

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// offering is a node where a device plugin offers resources: name, quantity and so on.
func offering(node string, resources ...string) *v1.Node {
	result := builder.Node(node)
	result.Status.Allocatable = builder.Resources(resources...)
	return result
}

func TestOffers(t *testing.T) {
	t.Parallel()
	gpu := []Resource{{Name: gpuResource, Class: builder.Class("gpu")}}
	both := append(gpu, Resource{Name: nicResource, Class: builder.Class("nic")})
	o := NewOffers()
	see := func(node *v1.Node) { o.NodeChanged(informer.Event[v1.Node]{After: node}) }
	see(offering("n1", "cpu", "1", gpuResource, "2"))
	see(offering("n2", gpuResource, "0", nicResource, "1"))
	see(offering("n3"))
	require.Equal(t, sets.New("n1"), o.On(gpu))
	require.Equal(t, sets.New("n1", "n2"), o.On(both))
	require.Empty(t, o.On([]Resource{{Name: gpuResource}}), "kube-scheduler alone counts what no class stands for")

	see(offering("n1", nicResource, "1"))
	see(offering("n3", gpuResource, "1"))
	require.Equal(t, sets.New("n3"), o.On(gpu))
	for _, name := range []string{"n1", "n2", "n3"} {
		o.NodeChanged(informer.Event[v1.Node]{Before: builder.Node(name)})
	}
	require.Empty(t, o.On(both))
	require.Empty(t, o.nodes)
	require.Empty(t, o.offered)
}
