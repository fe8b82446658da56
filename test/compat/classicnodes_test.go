package compat

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// There are more nodes than a driver can be asked about at a time, and few of them will do.
// These are found soon: a driver says of which nodes it was asked in vain, and of the
// others one is as good as allocated.
func TestClassicManyNodes(t *testing.T) {
	t.Parallel()
	const (
		nodes = api.PotentialNodesMaxSize + 32
		// The scheduler looks at 100 nodes at a time. So there are two lists at most, and for
		// each the drivers are asked once, and told a node twice.
		mostWrites = 6
	)
	s := newClassicSpace(t, "c-many", nodes)
	counts := make([]int, nodes)
	counts[3], counts[nodes-3] = 1, 1
	d := newDriver(s, "one", places(counts...))
	d.createClaim("gpu")
	contexts, err := d.resource("podschedulingcontexts").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer contexts.Stop()
	s.Create(s.Pod("user", builder.Uses("gpu")))
	s.Running("user")
	require.Contains(t, []string{s.Node(3), s.Node(nodes - 3)}, s.LivePod("user").Spec.NodeName)

	asked := specsOf(s, contexts)
	t.Logf("%d writes", len(asked))
	require.NotEmpty(t, asked)
	require.LessOrEqual(t, len(asked), mostWrites)
	for _, potential := range asked {
		require.GreaterOrEqual(t, len(potential), 30)
		require.LessOrEqual(t, len(potential), api.PotentialNodesMaxSize)
	}
}

// specsOf returns the potential nodes that the scheduler has written, each time that it has
// changed a context, until the context is removed.
func specsOf(s *harness.Space, events watch.Interface) [][]string {
	s.T.Helper()
	var specs [][]string
	last := ""
	s.Eventually("hear of the end of a context", func(context.Context) error {
		for {
			select {
			case event := <-events.ResultChan():
				if event.Type == watch.Deleted {
					return nil
				}
				object, isContext := event.Object.(*unstructured.Unstructured)
				if !isContext {
					return fmt.Errorf("there is an event without a context: %v", event)
				}
				if spec := fmt.Sprint(object.Object["spec"]); spec != last {
					potential, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "potentialNodes")
					specs, last = append(specs, potential), spec
				}
			default:
				return fmt.Errorf("heard of %d specs", len(specs))
			}
		}
	})
	return specs
}
