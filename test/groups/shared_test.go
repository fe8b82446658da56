package groups

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestSharedClaim: the pods of a group share a claim (kubernetes/kubernetes#137617 and
// #137897: they waited for each other for ever; #140269: some were stuck when the first
// one had been bound before the last one was reserved). The claim is reserved for the
// pods, or, if it belongs to the group, for that.
func TestSharedClaim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pods     int
		minCount int32
	}{
		"gang-2":      {pods: 2, minCount: 2},
		"gang-20":     {pods: 20, minCount: 20},
		"gang-5-of-2": {pods: 5, minCount: 2},
		"basic-2":     {pods: 2},
		"basic-20":    {pods: 20},
	}
	for name, test := range tests {
		for _, ofGroup := range []bool{false, true} {
			title := name + "-of-pods"
			if ofGroup {
				title = name + "-of-group"
			}
			t.Run(title, func(t *testing.T) {
				if test.pods == 2 {
					harness.Long(t, "the same for fewer pods")
				}
				t.Parallel()
				s := newSpace(t, "shared-"+title, 2, 1)
				uses := builder.Uses("shared")
				claims := uses
				if !ofGroup {
					claims = nil
				}
				s.Create(builder.Claim("shared", s.Want(1)).Obj(), group("gang", test.minCount, claims...))
				pods := s.createMembers("gang", test.pods, uses)
				s.Running(pods...)
				if ofGroup {
					require.Equal(t, []string{"podgroups/gang"}, s.consumers("shared"))
					require.Equal(t, s.podGroup("gang").UID, s.LiveClaim("shared").Status.ReservedFor[0].UID)
				} else {
					require.Len(t, s.consumers("shared"), test.pods)
				}
				node := s.LivePod(pods[0]).Spec.NodeName
				require.False(t, slices.ContainsFunc(pods, func(pod string) bool { return s.LivePod(pod).Spec.NodeName != node }),
					"the device is on one node only")
				require.Equal(t, 1, s.NothingLeaked())
			})
		}
	}
}

// TestIncompatibleNodes: two pods of a gang cannot both be where the claim is. Nothing is
// written, and nothing is kept for them.
func TestIncompatibleNodes(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "incompatible", 2, 1)
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), group("gang", 2))
	s.createMember("gang", s.PodOnNode("here", 0, builder.Uses("shared")))
	s.createMember("gang", s.PodOnNode("there", 1, builder.Uses("shared")))
	s.Waiting("there", "claim "+s.Name+"/shared is being allocated on other nodes for the pod's group")
	s.Waiting("here", "pod group is unschedulable")
	claim := s.LiveClaim("shared")
	require.Nil(t, claim.Status.Allocation)
	require.Empty(t, claim.Finalizers)
	require.Equal(t, 2, s.NothingLeaked())
}

// TestSharedAndOwnClaims: the claim that is shared can be used on all nodes, and each pod
// has one of its own besides (kubernetes/kubernetes#139016).
func TestSharedAndOwnClaims(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "mixed", 2, 0)
	for node := range 2 {
		var devices []*builder.DeviceBuilder
		for _, device := range harness.Numbered(2) {
			devices = append(devices, device.Attr("kind", "gpu"))
		}
		s.Devices(node, devices...)
	}
	s.Create(builder.Slice(s.Name + "-network").OfDriver(s.Driver).OnAllNodes().Devices(builder.Device("net").Attr("kind", "network")).Obj())
	s.Create(
		builder.Claim("network", s.Want(1, s.Attribute("kind")+` == "network"`)).Obj(),
		builder.Claim("gpu", s.Want(1, s.Attribute("kind")+` == "gpu"`)).Template(),
		group("gang", 4, builder.Uses("network")...),
	)
	uses := append(builder.Uses("network"), builder.FromTemplate("gpu")...)
	pods := s.createMembers("gang", 4, uses)
	s.Running(pods...)
	require.Equal(t, []string{"podgroups/gang"}, s.consumers("network"))
	onNode := map[string]int{}
	for _, pod := range pods {
		onNode[s.LivePod(pod).Spec.NodeName]++
	}
	require.Equal(t, map[string]int{s.Node(0): 2, s.Node(1): 2}, onNode, "where the GPUs are")
}
