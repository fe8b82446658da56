package allocator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// migNode is the node of eight H100 that a real driver publishes.
func migNode(t *testing.T, held ...string) cluster {
	t.Helper()
	var list []*b.SliceBuilder
	for _, published := range slicesFrom("h100-mig-node.json") {
		list = append(list, b.Slice("").Modify(func(s *resourceapi.ResourceSlice) { published.DeepCopyInto(s) }))
	}
	c := cluster{slices: list, node: b.Node("h100-mig-node"), classes: []*resourceapi.DeviceClass{b.Class("mig", isMIG)}}
	for i, device := range held {
		claim := b.Claim(fmt.Sprintf("held-%d", i), b.Request("gpu", "mig")).Allocated("h100-mig-node", device)
		claim.Status.Allocation.Devices.Results[0].Driver = "gpu.nvidia.com"
		c.held = append(c.held, claim)
	}
	return c
}

// profile asks for partitions of a profile.
func profile(name string, count int64) *b.ClaimBuilder {
	return b.Claim("mig", b.Request("r", "mig").Where(`device.attributes["gpu.nvidia.com"].profile == "`+name+`"`).Count(count))
}

// TestPartitionsLeaveGPUsWhole: a partition goes to a GPU that is partitioned already, and there to the place
// where it blocks least.
func TestPartitionsLeaveGPUsWhole(t *testing.T) {
	c := migNode(t, "gpu-5-mig-3g40gb-9-0")
	require.Regexp(t, `^r=h100-mig-node/gpu-5-mig-3g40gb-9-4$`, allChosen(c.best(t, nil, profile("3g.40gb", 1)))[0])
	require.Regexp(t, `^r=h100-mig-node/gpu-5-mig-1g10gb-19-`, allChosen(c.best(t, nil, profile("1g.10gb", 1)))[0])
}

// TestSaysWhatIsKeptWhole checks the number of wholly free GPUs after the plan, and after the solution that
// the search met first.
func TestSaysWhatIsKeptWhole(t *testing.T) {
	counting := func(site *allocator.NodeView) { site.CountWhole = true }
	c := migNode(t, "gpu-5-mig-3g40gb-9-0")
	outcome := c.best(t, counting, profile("3g.40gb", 1))
	require.Equal(t, []int{7, 6}, []int{outcome.Whole, outcome.FirstFitWhole})
	outcome = c.best(t, counting, profile("7g.80gb", 1))
	require.Equal(t, []int{6, 6}, []int{outcome.Whole, outcome.FirstFitWhole})
	outcome = c.best(t, nil, profile("7g.80gb", 1))
	require.Zero(t, outcome.Whole, "nobody wants to know")

	// Devices that the node cannot use do not count.
	plain := cluster{slices: []*b.SliceBuilder{
		onNode("p", gpus(3)...), b.Slice("other").OnNode("other").InPool("other", 1, 1).Devices(gpus(5)...),
	}}
	outcome = plain.best(t, counting, claims(1)...)
	require.Equal(t, []int{2, 2}, []int{outcome.Whole, outcome.FirstFitWhole})
}

// TestPartitionsGoWhereMostHold: of two GPUs with the same partitions left, a partition goes to the GPU with
// more holders, because the other one is whole again sooner. All partitions of one pod go there.
func TestPartitionsGoWhereMostHold(t *testing.T) {
	node := func(ofOthers []string, held ...[]string) (c cluster) {
		counters, slice := b.Slice("counters").InPool("p", 1, 2).OnNode("n"), b.Slice("devices").InPool("p", 1, 2).OnNode("n")
		for i := range held {
			gpu := fmt.Sprint("gpu-", i)
			counters.Counters(gpu, "slices", "8")
			size := func(name string) string { size, _, _ := strings.Cut(name, "-"); return size }
			for _, name := range []string{"8", "4", "2", "2-b", "1", "1-b", "1-c"} {
				slice.Devices(b.Device(gpu+"-"+name).Consumes(gpu, "slices", size(name)).Attr("size", size(name)))
			}
			if ofOthers == nil {
				for _, name := range held[i] {
					slice.Devices(b.Device(gpu+"-"+name).Consumes(gpu, "slices", size(name)))
				}
			}
			for _, name := range ofOthers { // They need a feature that is off.
				slice.Devices(b.Device(gpu+"-"+name).Consumes(gpu, "slices", size(name)).BindingCondition("ready"))
			}
			for _, name := range held[i] {
				c.held = append(c.held, heldBy(gpu+"-"+name, "p", gpu+"-"+name))
			}
		}
		c.slices = []*b.SliceBuilder{counters, slice}
		return c
	}
	ask := func(name string, count int64) *b.ClaimBuilder {
		return b.Claim(name, b.Request("r", "gpu").Where(`device.attributes["gpu.example.com"].size == "1"`).Count(count))
	}
	one, three := []string{"4-held"}, []string{"2-held", "1-held", "1-held-too"}
	for _, ofOthers := range [][]string{nil, slices.Concat(one, three)} {
		require.Equal(t, []string{"r=p/gpu-0-1"}, allChosen(node(ofOthers, three, one).best(t, nil, ask("c", 1))))
		c := node(ofOthers, one, three)
		require.Equal(t, []string{"r=p/gpu-1-1"}, allChosen(c.best(t, nil, ask("c", 1))))
		require.Equal(t, []string{"r=p/gpu-1-1", "r=p/gpu-1-1-b"}, allChosen(c.best(t, nil, ask("c", 2))))
		require.Equal(t, []string{"r=p/gpu-1-1", "r=p/gpu-1-1-b"}, allChosen(c.best(t, nil, ask("c", 1), ask("d", 1))))
	}
}

// TestSharesFillDevices: a share goes to the device with the least left that suffices.
func TestSharesFillDevices(t *testing.T) {
	devices := gpus(3)
	for _, d := range devices {
		d.Shared().Capacity("memory", "80Gi").Policy("memory", resourceapi.CapacityRequestPolicy{Default: quantity("1Gi")})
	}
	features := coreFeatures
	features.ConsumableCapacity = true
	c := cluster{slices: []*b.SliceBuilder{onNode("p", devices...)}, features: &features}
	ask := func(amount string) *b.ClaimBuilder {
		return b.Claim("c", b.Request("gpu", "gpu").Capacity("memory", amount))
	}
	first := c.mustFit(t, ask("40Gi"))
	require.Equal(t, []string{"gpu=p/gpu-0"}, chosen(first[0]))
	onLast := ask("50Gi").Obj()
	onLast.Status.Allocation = first[0].DeepCopy()
	onLast.Status.Allocation.Devices.Results[0].Device = "gpu-2"
	c.held = append(c.held, onLast)
	demand := &placement.Demand{Version: 2, Kinds: []string{placement.AnyDevice}, Shapes: []placement.Shape{
		{Weight: 0.5, Requests: []placement.Request{{Count: 1}}}, {Weight: 0.5, Requests: []placement.Request{{Count: 1, Amount: 0.5}}}}}
	withDemand := func(site *allocator.NodeView) { site.Objective = &allocator.Objective{Demand: demand} }
	require.Equal(t, []string{"gpu=p/gpu-2"}, allChosen(c.best(t, withDemand, ask("40Gi"))))
	require.Equal(t, []string{"gpu=p/gpu-0"}, allChosen(c.best(t, withDemand, ask("60Gi"))))
	c.mustFit(t, ask("1Gi")) // The ledger's amounts did not change.
}

func TestStrategies(t *testing.T) {
	features := coreFeatures
	features.ConsumableCapacity = true
	devices := gpus(2)
	for _, d := range devices {
		d.Shared().Capacity("memory", "80Gi").Policy("memory", resourceapi.CapacityRequestPolicy{Default: quantity("1Gi")})
	}
	c := cluster{slices: []*b.SliceBuilder{onNode("p", devices...)}, features: &features}
	claim := b.Claim("c", b.Request("gpu", "gpu").Capacity("memory", "20Gi"))
	held := claim.Obj()
	held.Status.Allocation = &c.mustFit(t, claim)[0]
	c.held = append(c.held, held)
	for strategy, want := range map[allocator.Strategy]string{allocator.LeastFragmentation: "gpu=p/gpu-0", allocator.Spread: "gpu=p/gpu-1"} {
		outcome := c.best(t, func(site *allocator.NodeView) { site.Objective = &allocator.Objective{Strategy: strategy} }, claim)
		require.Equal(t, []string{want}, allChosen(outcome))
	}
}

// TestEarlierAlternativesStayStronger: no value compensates for a later alternative.
func TestEarlierAlternativesStayStronger(t *testing.T) {
	c := cluster{slices: []*b.SliceBuilder{onNode("p", inPairs()...)}, held: []*resourceapi.ResourceClaim{heldBy("others", "p", "gpu-0", "gpu-2", "gpu-4", "gpu-6")}}
	claim := b.Claim("c", b.FirstAvailable("gpu", b.Request("two", "gpu").Count(2), b.Request("one", "gpu")))
	require.Equal(t, []string{"gpu/two=p/gpu-1", "gpu/two=p/gpu-3"}, allChosen(c.best(t, nil, claim)))
}

// TestBrokenGroupsCostLess: for one device, a node with a broken pair is better than a fuller node whose pair
// would be broken. With Spread this does not matter.
func TestBrokenGroupsCostLess(t *testing.T) {
	value := func(strategy allocator.Strategy, held ...string) allocator.Value {
		c := cluster{slices: []*b.SliceBuilder{onNode("p", inPairs()...)}, held: []*resourceapi.ResourceClaim{heldBy("others", "p", held...)}}
		return c.best(t, func(site *allocator.NodeView) { site.Objective = &allocator.Objective{Strategy: strategy} }, claims(1)...).Value
	}
	broken, whole := []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4"}, []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"}
	require.Negative(t, value(allocator.LeastFragmentation, broken...).Compare(value(allocator.LeastFragmentation, whole...)))
	require.Negative(t, value(allocator.Spread).Compare(value(allocator.Spread, broken...)))
}

func TestAsks(t *testing.T) {
	features := coreFeatures
	features.ConsumableCapacity = true
	devices := gpus(4)
	devices[0].Shared().Capacity("memory", "80Gi")
	c := cluster{slices: []*b.SliceBuilder{onNode("p", devices...)}, features: &features, classes: []*resourceapi.DeviceClass{b.Class("ours", `device.driver == "gpu.example.com"`)}}
	solver, site := c.solver(), c.site()
	asks := func(requests ...*b.RequestBuilder) []placement.Ask {
		return solver.Prepare(objects([]*b.ClaimBuilder{b.Claim("c", requests...)})).Asks(t.Context(), site.Pools)
	}
	require.Equal(t, []placement.Ask{{Kind: placement.AnyDevice, Count: 1, Amount: 0.25}}, asks(b.Request("r", "gpu").Capacity("memory", "20Gi")))
	require.Equal(t, []placement.Ask{{Kind: `device.driver == "gpu.example.com"`, Count: 4}}, asks(b.Request("r", "ours").All()))
	require.Empty(t, asks(b.Request("r", "gpu").Admin()), "admin access takes nothing")
	require.Empty(t, asks(b.Request("r", "gpu").Count(1<<40)), "no claim can have so many")
	require.Empty(t, asks(b.Request("r", "gpu").Count(20), b.Request("s", "gpu").Count(20)), "nor so many together")
	require.Len(t, asks(b.Request("r", "gpu").Count(16), b.Request("s", "gpu").Count(16)), 2)
	require.Equal(t, []placement.Ask{{Kind: placement.AnyDevice, Count: 2}},
		asks(b.FirstAvailable("r", b.Request("two", "gpu").Count(2), b.Request("one", "ours"))))
}

// TestManyDevicesStayWithinTheBudget: requests for 32 of 128 devices, all alike or all different.
func TestManyDevicesStayWithinTheBudget(t *testing.T) {
	different := gpus(128)
	for i, d := range different {
		d.Attr(pcieRoot, fmt.Sprintf("pci-%d", i%40)).Attr(numaNode, i%8).Attr("index", i)
	}
	for name, devices := range map[string][]*b.DeviceBuilder{"alike": gpus(128), "different": different} {
		c := cluster{slices: []*b.SliceBuilder{onNode("p", devices...)}}
		outcome := c.best(t, nil, claims(32)...)
		require.Len(t, allChosen(outcome), 32)
		require.LessOrEqual(t, outcome.Compared, 257, name)
	}
}

// TestEndlessCapacitiesAreNoTrouble: no calculation uses a number with a billion digits.
func TestEndlessCapacitiesAreNoTrouble(t *testing.T) {
	features := coreFeatures
	features.ConsumableCapacity = true
	devices := gpus(3)
	devices[1].Shared().Capacity("memory", "1e999999999")
	devices[2].Shared().Capacity("memory", "1")
	c := cluster{slices: []*b.SliceBuilder{onNode("p", devices...)}, features: &features}
	outcome := c.best(t, nil, claims(1)...)
	require.True(t, outcome.Fits())
	require.NotEmpty(t, c.solver().Prepare(objects(claims(1))).Asks(t.Context(), c.site().Pools))
}

// BenchmarkPacked measures NewPacked next to New, in the same run.
func BenchmarkPacked(bm *testing.B) {
	for _, c := range benchmarkCases() {
		if !c.fits {
			continue
		}
		for name, create := range map[string]newAllocator{"New": allocator.New, "NewPacked": allocator.NewPacked} {
			bm.Run(fmt.Sprintf("case=%s/impl=%s", c.name, name), func(bm *testing.B) { c.run(bm, create) })
		}
	}
	different := gpuNode(128)
	for _, slice := range different {
		for i := range slice.Spec.Devices {
			root := fmt.Sprintf("pci-%d", i)
			slice.Spec.Devices[i].Attributes[pcieRoot] = resourceapi.DeviceAttribute{StringValue: &root}
		}
	}
	c := benchmarkCase{slices: different, claims: requestsOf(32), fits: true}
	for name, create := range map[string]newAllocator{"New": allocator.New, "NewPacked": allocator.NewPacked} {
		bm.Run("case=32_of_128_different/impl="+name, func(bm *testing.B) { c.run(bm, create) })
	}
}

// TestPackedFitsIfNewFits: NewPacked has a plan, or the same kind of error, if and only if New has.
func TestPackedFitsIfNewFits(t *testing.T) {
	for name, w := range map[string]worlds{"small": smallWorlds, "large": largeWorlds} {
		count := map[string]int{"small": 2_000, "large": 200}[name]
		w.each(t, 6_000_000_000, scenarioCount(count), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
			want, wantErr := s.run(t.Context(), allocator.New, celCache)
			got, gotErr := s.run(t.Context(), allocator.NewPacked, celCache)
			if errors.Is(wantErr, allocator.ErrGaveUp) {
				return gaveUp
			}
			if errorClass(wantErr) != errorClass(gotErr) || (want == nil) != (got == nil) {
				t.Errorf("New: %t, %v; NewPacked: %t, %v\n%s", want != nil, wantErr, got != nil, gotErr, s)
			}
			if violations := s.violations(t, got, celCache); got != nil && len(violations) > 0 {
				t.Errorf("%v\n%s", violations, s)
			}
			again, _ := s.clone().run(t.Context(), allocator.NewPacked, celCache)
			if diff := diffOf(answersIn(got), answersIn(again)); diff != "" {
				t.Errorf("another plan for the same question: %s\n%s", diff, s)
			}
			return outcomeOf(got, gotErr)
		})
	}
}
