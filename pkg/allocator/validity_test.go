package allocator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestAllocationsAreValid checks each allocation against the requests of the claims, regardless of the search.
func TestAllocationsAreValid(t *testing.T) {
	forScenarios(t, 2_000_000_000, scenarioCount(6_000), func(t *testing.T, s scenario, celCache *cel.Cache) outcome {
		results, err := s.run(t.Context(), allocator.New, celCache)
		if results != nil {
			if violations := s.violations(t, results, celCache); len(violations) > 0 {
				t.Errorf("%s\n%s", strings.Join(violations, "\n"), s)
			}
		}
		return outcomeOf(results, err)
	})
}

// granted is a device that a request got.
type granted struct {
	device
	claim  int
	wish   *wish
	result *resourceapi.DeviceRequestAllocationResult
}

// inspection collects the violations of an allocation.
type inspection struct {
	scenario
	t        *testing.T
	celCache *cel.Cache
	results  []resourceapi.AllocationResult
	granted  []granted
	problems []string
}

func (s scenario) violations(t *testing.T, results []resourceapi.AllocationResult, celCache *cel.Cache) []string {
	i := &inspection{scenario: s, t: t, celCache: celCache, results: results}
	if len(results) != len(s.claims) {
		return []string{fmt.Sprintf("%d claims, but %d results", len(s.claims), len(results))}
	}
	for claim := range results {
		i.identify(claim)
	}
	for _, g := range i.granted {
		i.checkDevice(g)
	}
	i.checkDevicesOnce()
	i.checkShares()
	i.checkCounters()
	for claim := range results {
		i.checkRequests(claim)
		i.checkConfig(claim)
		i.checkConstraints(claim)
		i.checkNodeSelector(claim)
	}
	return i.problems
}

func (i *inspection) problem(format string, args ...any) {
	i.problems = append(i.problems, fmt.Sprintf(format, args...))
}

// identify finds the published device and the request of each result of a claim.
func (i *inspection) identify(claim int) {
	results := i.results[claim].Devices.Results
	if len(results) > resourceapi.AllocationResultsMaxSize {
		i.problem("claim %d has %d devices", claim, len(results))
	}
	for r := range results {
		result := &results[r]
		g := granted{claim: claim, result: result}
		for slot := range i.claims[claim].Spec.Devices.Requests {
			for _, w := range wishesOf(claim, slot, &i.claims[claim].Spec.Devices.Requests[slot]) {
				if w.name() == result.Request {
					g.wish = w
				}
			}
		}
		for _, d := range i.usableDevices() {
			if d.slice.Spec.Driver == result.Driver && d.slice.Spec.Pool.Name == result.Pool && d.Name == result.Device {
				g.device = d
			}
		}
		if g.wish == nil || g.Device == nil {
			i.problem("claim %d: nobody asked for or published %v", claim, *result)
			continue
		}
		i.granted = append(i.granted, g)
	}
}

// usableDevices are those of complete pools that the node sees and reaches.
func (i *inspection) usableDevices() []device {
	var list []device
	for _, pool := range poolsOf(i.scenario) {
		if pool.trouble == "" {
			list = append(list, devicesIn(pool.here)...)
		}
	}
	return slices.DeleteFunc(list, func(d device) bool { return !reaches(i.node, d) })
}

func (i *inspection) matches(w *wish, d device) bool {
	selectors := slices.Concat(i.classes[w.DeviceClassName].Spec.Selectors, w.Selectors)
	matches, err := matchesAll(i.t.Context(), i.celCache, d, selectors)
	return err == nil && matches && (len(d.BindingConditions) == 0 || i.features.DeviceBindingAndStatus)
}

func (i *inspection) checkDevice(g granted) {
	switch {
	case !i.matches(g.wish, g.device):
		i.problem("%s does not match request %s", g.id(), g.result.Request)
	case i.features.DeviceTaints && untolerated(g.device, g.wish.Tolerations):
		i.problem("%s has a taint that request %s does not tolerate", g.id(), g.result.Request)
	case !i.features.PartitionableDevices && len(g.ConsumesCounters) > 0:
		i.problem("%s is a partition, but the feature is off", g.id())
	case len(g.slice.Spec.SkipNodeOperations) > 0 && !i.canSkipOperations():
		i.problem("%s needs operations to be skipped, which the node cannot", g.id())
	case !g.wish.admin && i.state.AllocatedDevices.Has(g.id()):
		i.problem("%s is held by somebody else", g.id())
	case !g.wish.admin && !i.features.ConsumableCapacity && i.inUse(g.device):
		i.problem("%s is shared by others, but the feature is off", g.id())
	}
	want := resourceapi.DeviceRequestAllocationResult{
		Request: g.wish.name(), Driver: g.slice.Spec.Driver, Pool: g.slice.Spec.Pool.Name, Device: g.Name,
		Tolerations: g.wish.Tolerations, SkipNodeOperations: g.slice.Spec.SkipNodeOperations,
	}
	if g.wish.admin {
		want.AdminAccess = ptr.To(true)
	}
	if i.features.DeviceBindingAndStatus {
		want.BindingConditions, want.BindingFailureConditions = g.BindingConditions, g.BindingFailureConditions
	}
	if i.isShared(g.device) {
		want.ShareID = g.result.ShareID
		if !i.takesNothing(g) {
			want.ConsumedCapacity, _, _ = i.consumed(g.wish.Capacity, g.device)
		}
	}
	if diff := diffOf(want, *g.result); diff != "" {
		i.problem("result of request %s (-want +got): %s", g.result.Request, diff)
	}
}

// takesNothing reports whether admin access takes nothing, as the API specifies.
func (i *inspection) takesNothing(g granted) bool { return g.wish.admin && i.asAPI }

// checkDevicesOnce: a device goes to one request, except for shared devices and for admin access, which may
// use devices of other claims.
func (i *inspection) checkDevicesOnce() {
	for n, g := range i.granted {
		for _, other := range i.granted[:n] {
			sameRequest := g.claim == other.claim && g.wish.slot == other.wish.slot
			allowed := i.isShared(g.device) && !sameRequest || g.claim != other.claim && (g.wish.admin || other.wish.admin)
			if g.id() == other.id() && !allowed {
				i.problem("%s is given to %s and %s", g.id(), g.result.Request, other.result.Request)
			}
		}
	}
}

// checkRequests: each request has as many devices as it wants, for one alternative.
func (i *inspection) checkRequests(claim int) {
	for slot := range i.claims[claim].Spec.Devices.Requests {
		got := make(map[string]int)
		for _, g := range i.granted {
			if g.claim == claim && g.wish.slot == slot {
				got[g.result.Request]++
			}
		}
		wishes := wishesOf(claim, slot, &i.claims[claim].Spec.Devices.Requests[slot])
		if len(got) != 1 {
			i.problem("claim %d request %d: devices are for %v", claim, slot, got)
		}
		for _, w := range wishes {
			if n, found := got[w.name()]; found && n != i.wanted(w) {
				i.problem("claim %d request %s has %d devices and wants %d", claim, w.name(), n, i.wanted(w))
			}
		}
	}
}

func (i *inspection) wanted(w *wish) int {
	if w.AllocationMode != resourceapi.DeviceAllocationModeAll {
		return int(w.Count)
	}
	n := 0
	for _, d := range i.usableDevices() {
		if fits, err := i.fitsWhole(w, d); err == nil && fits && i.matches(w, d) {
			n++
		}
	}
	return n
}

func (i *inspection) checkConstraints(claim int) {
	for _, constraint := range i.claims[claim].Spec.Devices.Constraints {
		var attributes []*resourceapi.DeviceAttribute
		for _, g := range i.granted {
			if g.claim != claim || !g.wish.concerns(constraint) {
				continue
			}
			attribute, err := attributeFor(i.t.Context(), i.celCache, g.wish, g.device, nameIn(constraint))
			if err != nil {
				i.problem("claim %d: %v", claim, err)
			}
			attributes = append(attributes, attribute)
		}
		if !satisfies(constraint, attributes, i.features.ListTypeAttributes) {
			i.problem("claim %d does not satisfy %s", claim, constraint.String())
		}
	}
}

// checkNodeSelector: the claim can be used on this node, and on no node that one of
// its devices does not reach.
func (i *inspection) checkNodeSelector(claim int) {
	nodes := []*v1.Node{i.node}
	for _, zone := range []string{"1", "2"} {
		for _, rack := range []string{"a", "b"} {
			nodes = append(nodes, b.Node("node-1", "zone", zone, "rack", rack), b.Node("node-9", "zone", zone, "rack", rack))
		}
	}
	selector := i.results[claim].NodeSelector
	for _, node := range nodes {
		if selector != nil && !selects(selector, node) {
			if node == i.node {
				i.problem("claim %d cannot be used on the node: %s", claim, selector)
			}
			continue
		}
		for _, g := range i.granted {
			bound := ptr.Deref(g.BindsToNode, false) && node != i.node
			if g.claim == claim && (bound || !reaches(node, g.device)) {
				i.problem("claim %d may be used on %s with labels %v, but %s may not", claim, node.Name, node.Labels, g.id())
			}
		}
	}
}
