package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestUpstreamEndsTooEarly covers claims that have a solution under the API, but for which upstream, and with
// it the drop-in, returns an error or no solution. docs/design/differences.md lists them.
func TestUpstreamEndsTooEarly(t *testing.T) {
	numa := func(name string, kind string, node int) *b.DeviceBuilder {
		return b.Device(name).Attr("model", kind).Attr("numa", node)
	}
	node := nodeWith(0, numa("g0", "big", 1), numa("g1", "big", 1), numa("n0", "small", 0), numa("n1", "small", 1))
	all := func(name string) *b.RequestBuilder { return b.Request(name, "gpu").Where(isBig).All() }
	nic := func() *b.RequestBuilder { return b.Request("nic", "gpu").Where(isSmall) }
	one := b.Request("one", "gpu").Where(isBig)
	const agree = "gpu.example.com/numa"
	apart := nodeWith(0, numa("g0", "big", 0), numa("g1", "big", 1))
	incomplete := apart.and(b.Slice("q").InPool("q", 1, 2).OnNode("n").Devices(gpus(1)...))
	fails := b.Request("picky", "gpu").Where(attr + `.rail == 0`)
	tests := map[string]struct {
		cluster cluster
		claim   *b.ClaimBuilder
		want    []string
	}{
		"another device satisfies the constraint with all": {node, b.Claim("c", nic(), all("gpus")).Match(agree), []string{"nic=p/n1", "gpus=p/g0", "gpus=p/g1"}},
		"all break a constraint, one does not":             {apart, b.Claim("c", b.FirstAvailable("gpu", all("all"), one)).Match(agree), []string{"gpu/one=p/g0"}},
		"a pool is incomplete for all":                     {incomplete, b.Claim("c", b.FirstAvailable("gpu", all("all"), one)), []string{"gpu/one=p/g0"}},
		"a selector fails for the first alternative":       {apart, b.Claim("c", b.FirstAvailable("gpu", fails, one)), []string{"gpu/one=p/g0"}},
		"the first alternative's class does not exist":     {apart, b.Claim("c", b.FirstAvailable("gpu", b.Request("lost", "missing"), one)), []string{"gpu/one=p/g0"}},
		"a selector fails on one of the devices": {
			nodeWith(0, b.Device("bare"), numa("g0", "big", 0)), b.Claim("c", b.Request("gpu", "gpu").Where(attr+".numa == 0")), []string{"gpu=p/g0"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, chosen(tc.cluster.mustFit(t, tc.claim)[0]))
			// A single request has only one order.
			if requests := tc.claim.Obj().Spec.Devices.Requests; len(requests) == 2 {
				requests[0], requests[1] = requests[1], requests[0]
				tc.cluster.mustFit(t, tc.claim.Modify(func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests = requests }))
				requests[0], requests[1] = requests[1], requests[0]
			}
			s := dropInCase(tc.cluster.slices...)
			for _, create := range []newAllocator{structured.NewAllocator, allocator.New} {
				s.claims = []*resourceapi.ResourceClaim{tc.claim.Obj()}
				_, err := s.run(t.Context(), create, newCache())
				require.Equal(t, "fatal", errorClass(err))
			}
		})
	}
	outcome := apart.mustNotFit(t, b.Claim("c", all("gpus")).Match(agree))
	require.Contains(t, outcome.Reason(), agree)
}

// TestAdminAccessTakesNothing: admin access is granted regardless of used counters, capacity and shares, and
// leaves all of them to others, in either order of the claims. Upstream charges it.
func TestAdminAccessTakesNothing(t *testing.T) {
	features := coreFeatures
	features.ConsumableCapacity = true
	partition := cluster{slices: []*b.SliceBuilder{
		b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("set", "memory", "4"),
		b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(
			b.Device("one").Consumes("set", "memory", "4"), b.Device("other").Consumes("set", "memory", "4")),
	}}.withFeatures(&features)
	shared := nodeWith(0, b.Device("nic").Shared().Capacity("bandwidth", "10")).withFeatures(&features)
	full := b.Claim("full", b.Request("r", "gpu").Capacity("bandwidth", "10"))
	watch := func() *b.RequestBuilder { return b.Request("r", "gpu").Admin() }
	all, some := b.Claim("all", watch().All()), b.Claim("some", watch())

	for name, tc := range map[string]struct {
		cluster      cluster
		first, admin *b.ClaimBuilder
		want         []string
	}{
		"all partitions":     {partition, b.Claim("c", b.Request("r", "gpu")), all, []string{"r=p/one", "r=p/other"}},
		"a partition":        {partition, b.Claim("c", b.Request("r", "gpu")), some, []string{"r=p/one"}},
		"a full device":      {shared, full, some, []string{"r=p/nic"}},
		"all, which is full": {shared, full, all, []string{"r=p/nic"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, chosen(tc.cluster.mustFit(t, tc.first, tc.admin)[1]))
			results := tc.cluster.mustFit(t, tc.admin, tc.first)
			require.Equal(t, tc.want, chosen(results[0]))
			for _, result := range results[0].Devices.Results {
				require.Nil(t, result.ConsumedCapacity)
			}

			held := tc.cluster
			held.held = append(held.held, tc.first.Modify(func(c *resourceapi.ResourceClaim) { c.Status.Allocation = &results[1] }).Obj())
			require.Equal(t, tc.want, chosen(held.mustFit(t, tc.admin)[0]))
			watched := tc.cluster
			watched.held = append(watched.held, tc.admin.Modify(func(c *resourceapi.ResourceClaim) { c.Status.Allocation = &results[0] }).Obj())
			watched.mustFit(t, b.Claim("again", b.Request("r", "gpu")))
		})
	}
	shared.mustNotFit(t, b.Claim("c", watch().Capacity("bandwidth", "11"))) // The device never has that capacity.
}
