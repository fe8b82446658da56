package allocator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestWholeResult writes down one result with everything in it.
func TestWholeResult(t *testing.T) {
	c := nodeWith(0, tainted(1, gpus(1))...).withClasses(configuredClass("configured", "driver-a"))
	claim := b.Claim("gpus", b.Request("gpu", "configured").Tolerate("broken").Admin()).Config("driver-b", parametersFor("driver-b"), "gpu")
	require.Equal(t, []resourceapi.AllocationResult{{
		Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: b.Driver, Pool: "p", Device: "gpu-0", AdminAccess: ptr.To(true),
				Tolerations: []resourceapi.DeviceToleration{{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists}},
			}},
			Config: []resourceapi.DeviceAllocationConfiguration{
				{Source: resourceapi.AllocationConfigSourceClass, DeviceConfiguration: configFor("driver-a")},
				{Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: configFor("driver-b")},
			},
		},
		NodeSelector: pinned("n"),
	}}, c.mustFit(t, claim))
}

// parametersFor returns parameters that are unique to a driver.
func parametersFor(driver string) string { return `{"for":"` + driver + `"}` }

// configFor is the configuration with parametersFor a driver.
func configFor(driver string) resourceapi.DeviceConfiguration {
	return b.Opaque(driver, parametersFor(driver))
}

// configuredClass makes a class with parametersFor each of the drivers.
func configuredClass(name string, drivers ...string) *resourceapi.DeviceClass {
	class := b.Class(name)
	for _, driver := range drivers {
		b.WithConfig(class, driver, parametersFor(driver))
	}
	return class
}

// pinned selects one node by its name.
func pinned(node string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
}

// configs lists the configuration of a result as source driver [requests].
func configs(result resourceapi.AllocationResult) []string {
	var list []string
	for _, config := range result.Devices.Config {
		list = append(list, string(config.Source)+" "+config.Opaque.Driver+" ["+strings.Join(config.Requests, " ")+"]")
	}
	return list
}

func TestConfig(t *testing.T) {
	one, two := configuredClass("one", "a", "b"), configuredClass("two", "c")
	either := func() *b.RequestBuilder {
		return b.FirstAvailable("either", b.Request("first", "one").Count(9), b.Request("second", "two"))
	}
	tests := map[string]struct {
		claim *b.ClaimBuilder
		want  []string
	}{
		"none": {b.Claim("c", b.Request("x", "gpu")), nil},
		"a class with two, for the only request": {
			b.Claim("c", b.Request("x", "one")),
			[]string{"FromClass a []", "FromClass b []"},
		},
		"a class for one of two requests": {
			b.Claim("c", b.Request("x", "one"), b.Request("y", "gpu")),
			[]string{"FromClass a [x]", "FromClass b [x]"},
		},
		"a class of two requests comes once": {
			b.Claim("c", b.Request("x", "one"), b.Request("y", "one"), b.Request("z", "gpu")),
			[]string{"FromClass a [x y]", "FromClass b [x y]"},
		},
		"classes in the order of the requests, then the claim": {
			b.Claim("c", b.Request("x", "two"), b.Request("y", "one")).Config("own", parametersFor("own"), "y"),
			[]string{"FromClass c [x]", "FromClass a [y]", "FromClass b [y]", "FromClaim own [y]"},
		},
		"the class of the chosen alternative": {
			b.Claim("c", either(), b.Request("y", "gpu")),
			[]string{"FromClass c [either/second]"},
		},
		"of the claim for all": {
			b.Claim("c", b.Request("x", "gpu"), b.Request("y", "gpu")).Config("own", parametersFor("own")),
			[]string{"FromClaim own []"},
		},
		"of the claim for each by name is for all": {
			b.Claim("c", b.Request("x", "gpu"), b.Request("y", "gpu")).Config("own", parametersFor("own"), "y", "x"),
			[]string{"FromClaim own []"},
		},
		"of the claim for the request with alternatives": {
			b.Claim("c", either(), b.Request("y", "gpu")).Config("own", parametersFor("own"), "either"),
			[]string{"FromClass c [either/second]", "FromClaim own [either]"},
		},
		"of the claim for the chosen alternative": {
			b.Claim("c", either(), b.Request("y", "gpu")).Config("own", parametersFor("own"), "either/second"),
			[]string{"FromClass c [either/second]", "FromClaim own [either/second]"},
		},
		"of the claim for an alternative that is not chosen": {
			b.Claim("c", either(), b.Request("y", "gpu")).Config("own", parametersFor("own"), "either/first"),
			[]string{"FromClass c [either/second]"},
		},
		"of the claim for both alternatives and a request": {
			b.Claim("c", either(), b.Request("y", "gpu")).Config("own", parametersFor("own"), "either/first", "either/second", "y"),
			[]string{"FromClass c [either/second]", "FromClaim own []"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := nodeWith(0, gpus(4)...).withClasses(one, two)
			require.Equal(t, tc.want, configs(c.mustFit(t, tc.claim)[0]))
		})
	}
}

func TestNodeSelector(t *testing.T) {
	both := b.NodeSelector("zone", "z")
	both.NodeSelectorTerms[0].MatchExpressions = append(both.NodeSelectorTerms[0].MatchExpressions,
		b.NodeSelector("rack", "r").NodeSelectorTerms[0].MatchExpressions...)
	tests := map[string]struct {
		slices []*b.SliceBuilder
		want   *v1.NodeSelector
	}{
		"local":     {[]*b.SliceBuilder{onNode("p", gpus(2)...)}, pinned("n")},
		"all nodes": {[]*b.SliceBuilder{b.Slice("p").OnAllNodes().Devices(gpus(2)...)}, nil},
		"selected":  {[]*b.SliceBuilder{b.Slice("p").OnLabeled("zone", "z").Devices(gpus(2)...)}, b.NodeSelector("zone", "z")},
		"selected in two ways": {
			[]*b.SliceBuilder{b.Slice("p").OnLabeled("zone", "z").Devices(gpus(1)...), b.Slice("q").OnLabeled("rack", "r").Devices(gpus(1)...)},
			both,
		},
		"selected and on all nodes": {
			[]*b.SliceBuilder{b.Slice("p").OnAllNodes().Devices(gpus(1)...), b.Slice("q").OnLabeled("rack", "r").Devices(gpus(1)...)},
			b.NodeSelector("rack", "r"),
		},
		"selected and local": {
			[]*b.SliceBuilder{b.Slice("p").OnLabeled("zone", "z").Devices(gpus(1)...), onNode("q", gpus(1)...)},
			pinned("n"),
		},
		"selected per device": {
			[]*b.SliceBuilder{b.Slice("p").PerDevice().Devices(b.Device("a").OnLabeled("zone", "z"), b.Device("b").OnLabeled("rack", "r"))},
			both,
		},
		"one is local, per device": {
			[]*b.SliceBuilder{b.Slice("p").PerDevice().Devices(b.Device("a").OnAllNodes(), b.Device("b").OnNode("n"))},
			pinned("n"),
		},
		"one binds to the node": {
			[]*b.SliceBuilder{b.Slice("p").OnAllNodes().Devices(b.Device("a"), b.Device("b").BindsToNode())},
			pinned("n"),
		},
		"the same selector twice, values in another order": {
			[]*b.SliceBuilder{
				b.Slice("p").Modify(selectingIn("zone", "z", "y")).Devices(gpus(1)...),
				b.Slice("q").Modify(selectingIn("zone", "y", "z")).Devices(gpus(1)...),
			},
			&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"z", "y"}}}}}},
		},
		"the same key twice, with fewer values": {
			[]*b.SliceBuilder{
				b.Slice("p").Modify(selectingIn("zone", "z", "y")).Devices(gpus(1)...),
				b.Slice("q").Modify(selectingIn("zone", "z")).Devices(gpus(1)...),
			},
			&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"z", "y"}},
				{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"z"}}}}}},
		},
		"a selector without terms is none": {
			// A slice for no node that is also for all nodes is for all nodes.
			[]*b.SliceBuilder{b.Slice("p").OnAllNodes().Modify(func(s *resourceapi.ResourceSlice) {
				s.Spec.NodeSelector = &v1.NodeSelector{}
			}).Devices(gpus(2)...)},
			nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster{slices: tc.slices, node: b.Node("n", "zone", "z", "rack", "r")}
			results := c.mustFit(t, wants(2))
			require.Equal(t, tc.want, results[0].NodeSelector)
		})
	}
}

// selectingIn selects nodes whose label has one of the values.
func selectingIn(key string, values ...string) func(*resourceapi.ResourceSlice) {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.NodeSelector = b.NodeSelector(key, "")
		s.Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values = values
	}
}

// TestNodeSelectorWithSeveralTerms: of a device's selector with several terms, which the API does not allow
// any more, the term that the node meets counts. Upstream returns an error.
func TestNodeSelectorWithSeveralTerms(t *testing.T) {
	slice := b.Slice("p").OnLabeled("rack", "r").Modify(func(s *resourceapi.ResourceSlice) {
		terms := &s.Spec.NodeSelector.NodeSelectorTerms
		*terms = append(*terms, b.NodeSelector("zone", "z").NodeSelectorTerms...)
	}).Devices(gpus(1)...)
	c := cluster{slices: []*b.SliceBuilder{slice}, node: b.Node("n", "zone", "z")}
	require.Equal(t, b.NodeSelector("zone", "z"), c.mustFit(t, wants(1))[0].NodeSelector)

	s := dropInCase(slice)
	s.node, s.claims = c.node, objects([]*b.ClaimBuilder{wants(1)})
	_, err := s.run(t.Context(), allocator.New, newCache())
	require.EqualError(t, err, "claim train/gpus: device gpu-0: its node selector has 2 terms but the API allows only one; "+
		"its driver must publish it again")
}

// TestClaimsHaveTheirOwnResults has claims with devices of different reach.
func TestClaimsHaveTheirOwnResults(t *testing.T) {
	c := cluster{slices: []*b.SliceBuilder{
		b.Slice("a").OnAllNodes().Devices(gpus(1)...), onNode("b", gpus(1)...),
	}}
	results := c.mustFit(t, b.Claim("first", b.Request("x", "gpu")), b.Claim("second", b.Request("x", "gpu")))
	require.Equal(t, []string{"x=a/gpu-0"}, chosen(results[0]))
	require.Nil(t, results[0].NodeSelector)
	require.Equal(t, []string{"x=b/gpu-0"}, chosen(results[1]))
	require.Equal(t, pinned("n"), results[1].NodeSelector)
}

// TestBindingConditionsAreLeftOut uses devices that are available without the feature, because their list of
// conditions is empty.
func TestBindingConditionsAreLeftOut(t *testing.T) {
	device := b.Device("gpu-0").Modify(func(d *resourceapi.Device) {
		d.BindingConditions, d.BindingFailureConditions = []string{}, []string{"failed"}
	})
	c := nodeWith(0, device).withFeatures(&structured.Features{})
	result := c.mustFit(t, wants(1))[0].Devices.Results[0]
	require.Nil(t, result.BindingConditions)
	require.Nil(t, result.BindingFailureConditions)
}
