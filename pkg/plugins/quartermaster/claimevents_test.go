package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// TestConsumersComeAndGo: a pod that waits for a claim in use is not woken by each change of the claim's users. It
// would write, yield, and so wake others.
func TestConsumersComeAndGo(t *testing.T) {
	t.Parallel()
	const limit = resourceapi.ResourceClaimReservedForMaxSize
	bound, alsoBound, unbound := boundTo(newPod("b", uses("c")), "n1"), boundTo(newPod("b2", uses("c")), "n1"), newPod("u", uses("c"))
	full := append(users(limit-1), "b")
	tests := map[string]struct {
		before, after []string
		want          bool
	}{
		"one more of a claim in use":       {before: []string{"b"}, after: []string{"b", "u"}},
		"one less of a claim in use":       {before: []string{"b", "u"}, after: []string{"b"}},
		"the first of two":                 {before: []string{"b", "b2"}, after: []string{"b2"}},
		"the last that is bound":           {before: []string{"b", "u"}, after: []string{"u"}, want: true},
		"the last":                         {before: []string{"b"}, want: true},
		"one more of a claim not in use":   {before: []string{"u"}, after: []string{"u", "v"}, want: true},
		"one less of a claim that is full": {before: full, after: full[1:], want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beforeEvents(t, func(t *testing.T, f *fixture) {
				f.arrive(bound, alsoBound, unbound)
				before := with(gpus("c", 1).Allocated("n1", "gpu-0"), reservedFor(test.before...))
				after := with(gpus("c", 1).Allocated("n1", "gpu-0"), reservedFor(test.after...))
				require.Equal(t, test.want, f.pl.events.ClaimMatters(informer.Event[resourceapi.ResourceClaim]{Before: before, After: after}))
			})
		})
	}
}

// askedIndexer counts how often pods are looked up.
type askedIndexer struct {
	cache.Indexer
	asked int
}

func (i *askedIndexer) ByIndex(name, value string) ([]any, error) {
	i.asked++
	return i.Indexer.ByIndex(name, value)
}

// Each pod of a group writes to the claim that they share. To go through all of them each
// time would take as much as the square of their number.
func TestMembersAreNotLookedUpForEachWriteToTheirClaim(t *testing.T) {
	t.Parallel()
	beforeEvents(t, func(t *testing.T, f *fixture) {
		group := resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "gang", UID: "uid-gang"}
		reserved := func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{group}
		}
		before := with(gpus("c", 1).Allocated("n1", "gpu-0"), reserved)
		after := with(gpus("c", 1).Allocated("n1", "gpu-0"), reserved)
		after.ResourceVersion = "2"
		pods := &askedIndexer{Indexer: f.pl.claims.Pods}
		f.pl.claims.Pods = pods
		require.False(t, f.pl.events.ClaimMatters(informer.Event[resourceapi.ResourceClaim]{Before: before, After: after}))
		require.Zero(t, pods.asked)

		after.Status.ReservedFor = nil
		require.True(t, f.pl.events.ClaimMatters(informer.Event[resourceapi.ResourceClaim]{Before: before, After: after}), "nobody uses it any longer")
	})
}
