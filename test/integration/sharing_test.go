package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// As many pods as a claim can have share it, created all at once: each of them has to be
// reserved in one and the same object. Some more wait until the first ones have gone.
func TestClaimSharedByMany(t *testing.T) {
	harness.Long(t, "256 pods share a claim")
	t.Parallel()
	const most, more, nodes = resourceapi.ResourceClaimReservedForMaxSize, 5, 4 // a node runs 110 pods
	s := newSpace(t, "sharedbymany", nodes)
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnAllNodes().Devices(numbered(2)...).Obj())
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	for i := range most {
		s.Create(s.Pod(fmt.Sprintf("first-%d", i), builder.Uses("shared")))
	}
	s.Eventually("run all pods that the claim can have", s.runningOf("first", most))
	require.Len(t, s.LiveClaim("shared").Status.ReservedFor, most)
	for i := range more {
		s.Create(s.Pod(fmt.Sprintf("more-%d", i), builder.Uses("shared")))
	}
	s.Eventually("have the others wait", s.waitingOf("more", more, fmt.Sprintf("is reserved for %d pods (the limit)", most)))
	for i := range more + 1 {
		s.DeletePod(fmt.Sprintf("first-%d", i))
	}
	s.Eventually("run the others", s.runningOf("more", more))
}
