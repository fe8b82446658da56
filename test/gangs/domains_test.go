package gangs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// wanting gives a PodGroup an annotation.
func wanting(annotation string, key domain.Key) func(*v1alpha1.PodGroup) {
	return func(group *v1alpha1.PodGroup) { group.Annotations = map[string]string{annotation: key.String()} }
}

// nodesOf returns how many of some pods are on which node.
func (s *space) nodesOf(pods []string) map[string]int {
	s.T.Helper()
	nodes := make(map[string]int)
	for _, name := range pods {
		nodes[s.LivePod(name).Spec.NodeName]++
	}
	return nodes
}

// TestRack: with the annotation, a gang waits until one rack has room for all of it; if that is only preferred, it takes several.
func TestRack(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "rack", false, 3, 2)
	rack := domain.Key{Label: s.Name + "/rack"}
	s.LabelNode(0, rack.Label, "a")
	s.LabelNode(1, rack.Label, "a")
	s.LabelNode(2, rack.Label, "b")
	s.Known()
	s.group("small", 2, wanting(domain.RequiredAnnotation, rack))
	small := s.members("small", 0, 2)
	s.Running(small...)
	require.Equal(t, map[string]int{s.Node(2): 2}, s.nodesOf(small), "in the rack where it leaves the least")

	s.group("large", 5, wanting(domain.RequiredAnnotation, rack))
	large := s.members("large", 0, 5)
	s.Waiting(large[0], "4 of 5 pods fit into one domain ("+rack.String()+")", "1 more device of class "+s.Name)
	s.group("several", 4, wanting(domain.PreferredAnnotation, rack))
	several := s.members("several", 0, 4)
	s.Running(several...)
	require.Equal(t, map[string]int{s.Node(0): 2, s.Node(1): 2}, s.nodesOf(several))
	s.Waiting(large[0], "of 5 pods fit into one domain")
	s.deletePods(append(small, several...)...)
	s.AddNode(3, map[string]string{rack.Label: "a"})
	s.Devices(3, builder.Device("gpu-0"))
	s.Running(large...)
	require.Equal(t, map[string]int{s.Node(0): 2, s.Node(1): 2, s.Node(3): 1}, s.nodesOf(large))
}

// TestClique: nodes are in two cliques, and all pods of a gang get devices of the same one.
func TestClique(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "clique", false, 3, 0)
	for node, cliques := range []string{"abb", "abb", "a"} {
		var devices []*builder.DeviceBuilder
		for i, clique := range cliques {
			devices = append(devices, builder.Device(fmt.Sprintf("%c-%d", clique, i)).Attr("clique", string(clique)))
		}
		s.Devices(node, devices...)
	}
	s.group("gang", 4, wanting(domain.RequiredAnnotation, domain.Key{Attribute: s.Driver + "/clique"}))
	pods := s.members("gang", 0, 4)
	s.Running(pods...)
	for _, pod := range pods {
		require.Equal(t, "b", s.Results(pod)[0].Device[:1], pod)
	}
}

// TestWrongWish: nobody knows what is meant.
func TestWrongWish(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "wrong", false, 1, 2)
	s.group("gang", 2, func(group *v1alpha1.PodGroup) {
		group.Annotations = map[string]string{domain.RequiredAnnotation: "rack"}
	})
	pods := s.members("gang", 0, 2)
	s.Waiting(pods[0], domain.RequiredAnnotation+" of the PodGroup is \"rack\"", "label=topology.example.com/rack")
}
