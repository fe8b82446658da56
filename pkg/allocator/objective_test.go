package allocator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// best returns the best plan for a cluster with the zero Objective; choose may change the site.
func (c cluster) best(t *testing.T, choose func(*allocator.NodeView), claims ...*b.ClaimBuilder) *allocator.Outcome {
	t.Helper()
	site := c.site()
	site.Objective = new(allocator.Objective)
	if choose != nil {
		choose(&site)
	}
	outcome, err := c.solver().Prepare(objects(claims)).Solve(t.Context(), site)
	require.NoError(t, err)
	require.True(t, outcome.Fits())
	require.LessOrEqual(t, outcome.Value.Compare(outcome.FirstFit), 0)
	return outcome
}

// allChosen is chosen for all claims.
func allChosen(outcome *allocator.Outcome) (list []string) {
	for _, result := range outcome.Results {
		list = append(list, chosen(result)...)
	}
	return list
}

const (
	pcieRoot = "resource.kubernetes.io/pcieRoot"
	numaNode = "resource.kubernetes.io/numaNode"
)

// inPairs are eight GPUs, two on each PCIe root, four on each NUMA node.
func inPairs() []*b.DeviceBuilder {
	devices := gpus(8)
	for i, d := range devices {
		d.Attr(pcieRoot, fmt.Sprintf("pci-%d", i/2)).Attr(numaNode, i/4)
	}
	return devices
}

func TestCloseDevices(t *testing.T) {
	nics := func() *b.SliceBuilder {
		var devices []*b.DeviceBuilder
		for i := range 4 {
			devices = append(devices, b.Device(fmt.Sprintf("nic-%d", i)).Attr(pcieRoot, fmt.Sprintf("pci-%d", i)))
		}
		return b.Slice("nics").OnNode("n").OfDriver("nic.example.com").InPool("nics", 1, 1).Devices(devices...)
	}
	nicClass := b.Class("nic", `device.driver == "nic.example.com"`)
	gpuClass := b.Class("only-gpu", `device.driver == "gpu.example.com"`)
	tests := map[string]struct {
		held   []string
		nics   bool
		claims []*b.ClaimBuilder
		want   []string
	}{
		"two get a pair, the first in the driver's order": {
			claims: claims(2), want: []string{"gpu=p/gpu-0", "gpu=p/gpu-1"},
		},
		"two get a pair though others come first": {
			held: []string{"gpu-0", "gpu-2"}, claims: claims(2), want: []string{"gpu=p/gpu-4", "gpu=p/gpu-5"},
		},
		"four get one NUMA node": {
			held: []string{"gpu-0"}, claims: claims(4), want: []string{"gpu=p/gpu-4", "gpu=p/gpu-5", "gpu=p/gpu-6", "gpu=p/gpu-7"},
		},
		"one breaks no pair while there is a broken one": {
			held: []string{"gpu-6"}, claims: claims(1), want: []string{"gpu=p/gpu-7"},
		},
		"one that has to break a pair does so on the NUMA node that is broken": {
			held: []string{"gpu-6", "gpu-7"}, claims: claims(1), want: []string{"gpu=p/gpu-4"},
		},
		"two claims get a pair": {
			held: []string{"gpu-0"}, claims: claims(1, 1), want: []string{"gpu=p/gpu-2", "gpu=p/gpu-3"},
		},
		"three get a pair and one of the same NUMA node": {
			held: []string{"gpu-0", "gpu-2"}, claims: claims(3), want: []string{"gpu=p/gpu-4", "gpu=p/gpu-5", "gpu=p/gpu-6"},
		},
		"a GPU and a NIC share a root": {
			held: []string{"gpu-0", "gpu-1", "gpu-2"}, nics: true,
			claims: []*b.ClaimBuilder{b.Claim("c", b.Request("nic", "nic"), b.Request("gpu", "only-gpu"))},
			want:   []string{"nic=nics/nic-1", "gpu=p/gpu-3"},
		},
		"two drivers, two claims": {
			held: []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-5"}, nics: true,
			claims: []*b.ClaimBuilder{b.Claim("c", b.Request("nic", "nic")), b.Claim("d", b.Request("gpu", "only-gpu"))},
			want:   []string{"nic=nics/nic-2", "gpu=p/gpu-4"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster{slices: []*b.SliceBuilder{onNode("p", inPairs()...)}, classes: []*resourceapi.DeviceClass{nicClass, gpuClass}}
			if tc.nics {
				c.slices = append(c.slices, nics())
			}
			if len(tc.held) > 0 {
				c.held = append(c.held, heldBy("others", "p", tc.held...))
			}
			require.Equal(t, tc.want, allChosen(c.best(t, nil, tc.claims...)))
		})
	}
}

// claims asks for so many devices each.
func claims(counts ...int64) (list []*b.ClaimBuilder) {
	for i, count := range counts {
		list = append(list, b.Claim(fmt.Sprintf("c%d", i), b.Request("gpu", "gpu").Count(count)))
	}
	return list
}

func TestTheObjectiveOfNobody(t *testing.T) {
	c := cluster{slices: []*b.SliceBuilder{onNode("p", inPairs()...)}, held: []*resourceapi.ResourceClaim{heldBy("others", "p", "gpu-0")}}
	outcome, err := c.solve(context.Background(), claims(2)...)
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/gpu-1", "gpu=p/gpu-2"}, allChosen(outcome))
	require.Zero(t, outcome.Value)
	require.Zero(t, outcome.Compared)
}

// TestReadyDevicesComeFirst (KEP-5007): a device without binding conditions is preferred even if it leaves
// less for others, is further away from the other device or comes later, with any strategy. A better
// alternative takes precedence over that, and so does the existence of a solution.
func TestReadyDevicesComeFirst(t *testing.T) {
	fabric := func(name string) *b.DeviceBuilder { return b.Device(name).BindingCondition("attached") }
	root := func(d *b.DeviceBuilder, name string) *b.DeviceBuilder { return d.Attr(pcieRoot, name) }
	features := coreFeatures
	features.DeviceBindingAndStatus = true
	node := func(devices ...*b.DeviceBuilder) cluster { return nodeWith(0, devices...).withFeatures(&features) }
	attached := []*b.DeviceBuilder{root(b.Device("gpu-0"), "x"), root(b.Device("gpu-1"), "x")}
	pair := node(append([]*b.DeviceBuilder{fabric("fabric-0"), fabric("fabric-1")}, attached...)...)
	apart := node(root(fabric("fabric-0"), "x"), root(fabric("fabric-1"), "x"), root(b.Device("gpu-0"), "y"), b.Device("gpu-1"))
	tests := map[string]struct {
		cluster  cluster
		claim    *b.ClaimBuilder
		want     []string
		notReady int
	}{
		"a pair is broken up":         {pair, wants(1), []string{"gpu=p/gpu-0"}, 0},
		"as many as there are":        {pair, wants(3), []string{"gpu=p/fabric-0", "gpu=p/gpu-0", "gpu=p/gpu-1"}, 1},
		"further apart":               {apart, wants(2), []string{"gpu=p/gpu-0", "gpu=p/gpu-1"}, 0},
		"the pod waits for admins":    {pair, b.Claim("c", b.Request("gpu", "gpu").Count(1).Admin()), []string{"gpu=p/gpu-0"}, 0},
		"one failed before":           {pair, wants(3), []string{"gpu=p/fabric-1", "gpu=p/gpu-0", "gpu=p/gpu-1"}, 1},
		"a constraint is not broken":  {apart, wants(2).Match(pcieRoot), []string{"gpu=p/fabric-0", "gpu=p/fabric-1"}, 2},
		"a better alternative counts": {pair, b.Claim("c", b.FirstAvailable("gpu", b.Request("three", "gpu").Count(3), b.Request("one", "gpu").Count(1))), []string{"gpu/three=p/fabric-0", "gpu/three=p/gpu-0", "gpu/three=p/gpu-1"}, 1},
	}
	for name, tc := range tests {
		for _, strategy := range []allocator.Strategy{allocator.LeastFragmentation, allocator.Spread} {
			t.Run(fmt.Sprint(name, " ", strategy), func(t *testing.T) {
				outcome := tc.cluster.best(t, func(site *allocator.NodeView) {
					site.Objective = &allocator.Objective{Strategy: strategy}
					if name == "one failed before" {
						site.Failed = func(_ inventory.PoolID, device string) int { return map[string]int{"fabric-0": 1}[device] }
					}
				}, tc.claim)
				require.Equal(t, tc.notReady, outcome.Value.NotReady)
				require.Equal(t, tc.want, allChosen(outcome))
			})
		}
	}
}
