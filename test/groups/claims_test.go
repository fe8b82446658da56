package groups

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestClaimLivesAsLongAsItsGroup: a claim of a group and one that its pods share. The
// first stays reserved for the group until that is gone, the second for each pod.
func TestClaimLivesAsLongAsItsGroup(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "lives", 1, 2)
	s.Create(builder.Claim("of-group", s.Want(1)).Obj(), builder.Claim("of-pods", s.Want(1)).Obj(), group("gang", 0, builder.Uses("of-group")...))
	uses := builder.Uses("of-pods", "of-group")
	s.createMember("gang", s.Pod("first", uses))
	s.Running("first")
	s.createMember("gang", s.Pod("second", uses))
	s.Running("second")
	require.Equal(t, []string{"podgroups/gang"}, s.consumers("of-group"))
	require.ElementsMatch(t, []string{"pods/first", "pods/second"}, s.consumers("of-pods"))
	device := s.DeviceNames("first")[1]

	s.DeletePod("first")
	s.DeletePod("second")
	s.EventuallyFree("of-pods")
	require.Equal(t, []string{"podgroups/gang"}, s.consumers("of-group"))

	// A pod that comes now gets the same device.
	s.createMember("gang", s.Pod("third", builder.Uses("of-group")))
	s.Running("third")
	require.Equal(t, []string{device}, s.DeviceNames("third"))
	s.DeletePod("third")
	s.Gone("third")

	s.deletePodGroup("gang")
	s.nothingAllocated("of-group")
	require.Equal(t, 2, s.NothingLeaked())
}

// TestClaimFromTemplate: one claim is made for the group, and goes with it.
func TestClaimFromTemplate(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "template", 2, 1)
	use := builder.FromTemplate("one")
	s.Create(builder.Claim("one", s.Want(1)).Template(), group("gang", 3, use...))
	pods := s.createMembers("gang", 3, use)
	s.Running(pods...)
	claim := s.Claims(pods[0])[0]
	require.True(t, metav1.IsControlledBy(claim, s.podGroup("gang")))
	for _, pod := range pods {
		require.Equal(t, claim.Name, s.Claims(pod)[0].Name)
	}
	require.Equal(t, []string{"podgroups/gang"}, s.consumers(claim.Name))
	for _, pod := range pods {
		s.DeletePod(pod)
	}
	s.deletePodGroup("gang")
	s.Eventually("delete the claim of the group that is gone", func(context.Context) error {
		if _, err := s.KnownClaim(claim.Name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("claim %s is still there (%v)", claim.Name, err)
		}
		return nil
	})
	require.Equal(t, 2, s.NothingLeaked())
}

// TestGangWaitsForDevices: as long as one device is missing, nothing is held for the gang,
// and others get what there is. When devices come, all of it runs.
func TestGangWaitsForDevices(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "waits", 1, 4)
	s.Create(builder.Claim("one", s.Want(1)).Template(), builder.Claim("shared", s.Want(1)).Obj(), group("gang", 4, builder.Uses("shared")...))
	uses := append(builder.FromTemplate("one"), builder.Uses("shared")...)
	pods := s.createMembers("gang", 4, uses)
	for _, pod := range pods {
		s.Waiting(pod)
	}
	s.nothingAllocated("shared")
	require.Zero(t, s.Allocated())
	require.Equal(t, 4, s.NothingLeaked())

	s.Create(s.Slice(0, builder.Device("more")).InPool(s.Node(0)+"-more", 1, 1).Modify(rename(s.Node(0) + "-more")).Obj())
	s.RunningSoon(pods...)
	require.Zero(t, s.NothingLeaked())
}

// TestPartsOfDevices is kubernetes/kubernetes#138765: each pod would like a whole device,
// and can do with half of one. For all of the gang there are only halves.
func TestPartsOfDevices(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "parts", 1, 0)
	for i := range 2 {
		pool := fmt.Sprintf("%s-%d", s.Node(0), i)
		s.Create(s.Slice(0).InPool(pool, 1, 2).Counters("memory", "size", "2").Modify(rename(pool+"-counters")).Obj(),
			s.Slice(0,
				builder.Device("whole").Attr("size", "whole").Consumes("memory", "size", "2"),
				builder.Device("half-0").Attr("size", "half").Consumes("memory", "size", "1"),
				builder.Device("half-1").Attr("size", "half").Consumes("memory", "size", "1"),
			).InPool(pool, 1, 2).Modify(rename(pool+"-devices")).Obj())
	}
	size := func(name string) *builder.RequestBuilder {
		return s.Want(1, fmt.Sprintf("%s == %q", s.Attribute("size"), name)).Named(name)
	}
	s.Create(builder.Claim("part", builder.FirstAvailable("gpu", size("whole"), size("half"))).Template(), group("gang", 4))
	pods := s.createMembers("gang", 4, builder.FromTemplate("part"))
	s.Running(pods...)
	for _, pod := range pods {
		require.Contains(t, s.DeviceNames(pod)[0], "/half-")
	}
}

// rename changes the name of a slice.
func rename(name string) func(*resourceapi.ResourceSlice) {
	return func(slice *resourceapi.ResourceSlice) { slice.Name = name }
}

// TestLeftovers: a claim of the group is allocated where the gang does not fit, and
// reserved for it, as after a crash. It is given up.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	s := newOwnSpace(t, "leftovers", 2, 2)
	s.Create(builder.Claim("shared", s.Want(1)).Obj(), group("gang", 2, builder.Uses("shared")...))
	reservation := resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "gang", UID: s.podGroup("gang").UID}
	s.allocateOn("shared", 0, "gpu-1", reservation)
	for _, name := range []string{"a", "b"} {
		s.createMember("gang", s.PodOnNode(name, 1, builder.Uses("shared")))
	}
	s.startScheduler(harness.SchedulerOptions{})
	s.Running("a", "b")
	require.Equal(t, []string{s.Node(1) + "/gpu-0"}, s.DeviceNames("a"))
	require.Equal(t, []resourceapi.ResourceClaimConsumerReference{reservation}, s.LiveClaim("shared").Status.ReservedFor)
	require.Equal(t, 3, s.NothingLeaked())
}
