package allocator_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func (g *generator) claim(index int) *resourceapi.ResourceClaim {
	var requests []*b.RequestBuilder
	var names []string
	numbers, constraints, alternative := []int{1, 1, 1, 2, 2, 3}, []int{0, 0, 0, 0, 1, 1, 2}, 4
	if g.choosy {
		numbers, constraints, alternative = []int{2, 2, 3}, []int{0, 1, 1, 2}, 2
	}
	for i := range pick(g, numbers...) {
		name := fmt.Sprintf("r%d", i)
		names = append(names, name)
		if !g.oneIn(alternative) {
			requests = append(requests, g.request(name, true))
			continue
		}
		var alternatives []*b.RequestBuilder
		for j := range 1 + g.Intn(3) {
			alternative := fmt.Sprintf("s%d", j)
			names = append(names, name+"/"+alternative)
			alternatives = append(alternatives, g.request(alternative, false))
		}
		requests = append(requests, b.FirstAvailable(name, alternatives...))
	}
	claim := b.Claim(fmt.Sprintf("claim-%d", index), requests...)
	for range pick(g, constraints...) {
		var some []string
		if g.oneIn(2) {
			some = append(some, names[g.Intn(len(names))], names[g.Intn(len(names))])
		}
		attribute := pick(g, "gpu.example.com/numa", "example.com/root", "gpu.example.com/model")
		if g.oneIn(3) {
			claim.Distinct(attribute, some...)
		} else {
			claim.Match(attribute, some...)
		}
	}
	if g.oneIn(3) {
		g.addConfig(claim, names)
	}
	return claim.Modify(g.enrich).Obj()
}

func (g *generator) addConfig(claim *b.ClaimBuilder, names []string) {
	for i := range 1 + g.Intn(2) {
		var some []string
		for range g.Intn(3) {
			some = append(some, names[g.Intn(len(names))])
		}
		driver := fmt.Sprintf("driver-%d", i)
		claim.Config(driver, parametersFor(driver), some...)
	}
}

func (g *generator) request(name string, mayBeAdmin bool) *b.RequestBuilder {
	class := pick(g, "any", "any", "any", "any", "big", "small")
	if g.oddly(6) {
		class = "numa"
	}
	r := b.Request(name, class)
	if g.oddly(30) {
		r = b.Request(name, pick(g, "broken", "missing"))
	}
	switch g.Intn(12) {
	case 0:
		r.All()
	case 1:
		r.Count(pick(g, int64(3), 3, 4))
	default:
		r.Count(pick(g, int64(1), 1, 2))
	}
	if g.choosy && g.oneIn(4) {
		r.All()
	}
	if g.oddly(60) {
		r.Count(pick(g, int64(33), 1<<62))
	}
	if g.oneIn(7) {
		r.Where(pick(g, isBig, isSmall, isBig, isSmall, `true`, `device.allowMultipleAllocations`))
	} else if g.oddly(12) {
		r.Where(isNumaOf)
	}
	if mayBeAdmin && g.s.features.AdminAccess && g.oneIn(10) || mayBeAdmin && g.oddly(40) {
		r.Admin()
	}
	if g.choosy && mayBeAdmin && g.s.features.AdminAccess && g.oneIn(6) {
		r.Admin()
	}
	if g.oneIn(6) {
		r.Tolerate(pick(g, "t1", "t2", ""))
	}
	return r
}

// enrich lets requests ask for capacity and derive attributes. Without the feature that is an error, so it
// does so only in few scenarios.
func (g *generator) enrich(claim *resourceapi.ResourceClaim) {
	withCapacity := g.capacity && (g.s.features.ConsumableCapacity || g.oneIn(10))
	withDerived := g.derived && (g.s.features.DerivedAttributes || g.oneIn(10))
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if exact := request.Exactly; exact != nil {
			g.enrichOne(&exact.Capacity, &exact.DerivedAttributes, withCapacity, withDerived)
		}
		for j := range request.FirstAvailable {
			alternative := &request.FirstAvailable[j]
			g.enrichOne(&alternative.Capacity, &alternative.DerivedAttributes, withCapacity, withDerived)
		}
	}
}

func (g *generator) enrichOne(capacity **resourceapi.CapacityRequirements, derived *[]resourceapi.DeviceDerivedAttribute, withCapacity, withDerived bool) {
	if withCapacity && g.oneIn(2) {
		*capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			"bandwidth": *quantity(pick(g, "1", "2", "3", "700m", "1500m", "1", "5")),
		}}
		if g.oneIn(8) {
			(*capacity).Requests["slots"] = *quantity("1")
		}
		if g.oddly(20) {
			(*capacity).Requests["bandwidth"] = *quantity(pick(g, "9223372036854775807", "10E", "-3", "20"))
		}
	}
	if withDerived && g.oneIn(2) {
		*derived = append(*derived, resourceapi.DeviceDerivedAttribute{
			Name:       resourceapi.FullyQualifiedName(pick(g, "gpu.example.com/numa", "example.com/root")),
			Expression: g.derivation(),
		})
	}
}

// derivation is an expression that gives a string, a list, or in odd scenarios
// rather often an error.
func (g *generator) derivation() string {
	if g.oddly(4) {
		return pick(g, attr+`.numa`, `device.driver ==`)
	}
	return pick(g, `"model" in `+attr+` ? `+attr+`.model : "none"`, `"same"`, `device.driver`,
		`"numa" in `+attr+` ? `+attr+`.numa : 7`, `"model" in `+attr+` ? ["a", `+attr+`.model] : ["b"]`)
}
