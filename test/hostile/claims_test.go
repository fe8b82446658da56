package hostile

import (
	"fmt"
	"math"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// costly is an expression that reads nothing and costs the more the higher n is, by
// its third power: 47 is near the limit of the API, 60 beyond it. salt makes it another
// one.
func costly(n, salt int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint(i + salt)
	}
	list := "[" + strings.Join(items, ",") + "]"
	return fmt.Sprintf("%s.all(a, %s.all(b, %s.all(c, a+b+c >= 0)))", list, list, list)
}

// unstoppable is an expression that spends its time in a single call, which nothing can
// interrupt: it looks in a text of 2^doublings*100 characters for what is not there.
func unstoppable(doublings, salt int) string {
	text, bindings := fmt.Sprintf("%q", strings.Repeat("a", 100)), ""
	for i := range doublings {
		bindings += fmt.Sprintf("cel.bind(v%d, %s + %s, ", i, text, text)
		text = fmt.Sprintf("v%d", i)
	}
	return fmt.Sprintf("%s!%s.matches('[ab]{900}c%d')%s", bindings, text, salt, strings.Repeat(")", doublings))
}

// endless are expressions with which resource.Quantity would be busy for hours.
var endless = []string{
	`quantity("1e999999999").isGreaterThan(quantity("1"))`,
	`isQuantity("1e-999999999")`,
	`quantity(string(device.driver.size()) + "e999999999").add(1).isInteger()`,
}

// failing is an expression that does not compile, fails on each device, or is long
// or deep, but never costly.
func (g *generator) failing() string {
	return pick(g,
		`device.attributes["nobody.example.com"].nothing == 1`,
		`device.attributes[device.driver].a1 == "x"`,
		`1 / (device.driver.size() - device.driver.size()) == 1`,
		`9223372036854775807 + device.driver.size() > 0`,
		`[1, 2][device.driver.size()] == 1`,
		`quantity(device.driver).isGreaterThan(quantity("1"))`,
		`device.capacity[device.driver].c1.isGreaterThan(quantity("1e1000"))`,
		`device.attributes[device.driver].a1.matches("(a+)+$")`,
		`device.driver.matches("`+strings.Repeat("(", 50)+`")`,
		`semver(device.driver).major() == 1`,
		`device.`+strings.Repeat("x", 5000), `"`+strings.Repeat("\u00df", 5000)+`" == device.driver`,
		strings.Repeat("(", 40)+"true"+strings.Repeat(")", 40),
		strings.Repeat("!", 251)+"true",
		"true"+strings.Repeat(" && true", 1200),
		"device.driver == \"\x00\"",
	)
}

// class makes a device class for a driver; most have another selector that fails.
func (g *generator) class(driver string) *resourceapi.DeviceClass {
	class := builder.Class(g.name(pick(g, 0, 253)), fmt.Sprintf("device.driver == %q", driver))
	for range pick(g, 0, 1, 31, 32) {
		expression := `"a1" in device.attributes[device.driver] || true`
		if g.rng.Intn(16) == 0 {
			expression = g.failing()
		}
		class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return class
}

// request asks for devices in one of many bad ways.
func (g *generator) request(name, class string, alternative bool) *builder.RequestBuilder {
	request := builder.Request(name, class)
	switch g.rng.Intn(9) {
	case 0:
		request.Where(seldom(g, g.failing(), `device.driver ==`, `"text"`, strings.Repeat("(", 200)+"true"+strings.Repeat(")", 200)))
	case 1:
		for i := range 32 {
			request.Where(fmt.Sprintf("device.driver.size() > %d - 100", g.rng.Intn(50)+i))
		}
	case 2:
		request.Count(seldom[int64](g, pick[int64](g, math.MaxInt64, 32, 33, 1<<31), math.MinInt64, -1))
	case 3:
		request.All()
	case 4:
		request.Modify(func(r *resourceapi.ExactDeviceRequest) {
			r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"c1": g.quantity(), "none": g.quantity()}}
		})
	case 5:
		for range 16 {
			request.Tolerate(pick(g, "example.com/k1", ""))
		}
	case 6:
		if !alternative {
			request.Admin()
		}
	case 7:
		request.Modify(func(r *resourceapi.ExactDeviceRequest) { r.DeviceClassName = seldom(g, g.name(253), "", "\u00fc") })
	}
	return request
}

// claim asks for many things at once.
func (g *generator) claim(classes []string) *resourceapi.ResourceClaim {
	var requests []*builder.RequestBuilder
	for i := range seldom(g, pick(g, 1, 2, 8, 32), 33) {
		name := fmt.Sprintf("r%d%s", i, strings.Repeat("x", pick(g, 0, 50)))
		if g.rng.Intn(4) > 0 {
			requests = append(requests, g.request(name, pick(g, classes...), false))
			continue
		}
		var alternatives []*builder.RequestBuilder
		for j := range seldom(g, pick(g, 2, 8), 9) {
			alternatives = append(alternatives, g.request(fmt.Sprintf("s%d", j), pick(g, classes...), true))
		}
		requests = append(requests, builder.FirstAvailable(name, alternatives...))
	}
	claim := builder.Claim(g.name(pick(g, 0, 250)), requests...)
	for i := range seldom(g, pick(g, 0, 1, 2, 32), 33) {
		attribute := pick(g, "nobody.example.com/a1", fmt.Sprintf("%s.com/i%031d", strings.Repeat("d", 58), i*3))
		if g.rng.Intn(200) == 0 {
			attribute = pick(g, "\u00fc/a", "a1")
		}
		if i%2 == 0 {
			claim.Match(attribute)
		} else {
			claim.Distinct(attribute)
		}
	}
	return serverMade(claim.Obj())
}

// costlyClaims have selectors that cost as much as they may, or more, in several ways.
func (g *generator) costlyClaims(class string) []*resourceapi.ResourceClaim {
	var list []*resourceapi.ResourceClaim
	for _, expression := range append(endless, costly(44, g.made), costly(47, g.made), costly(60, g.made), unstoppable(9, g.made)) {
		list = append(list, serverMade(builder.Claim(g.name(0), builder.Request("costly", class).Where(expression)).Obj()))
	}
	return list
}

// serverMade removes what the API server sets.
func serverMade(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.ObjectMeta = metav1.ObjectMeta{Name: claim.Name}
	for i := range claim.Spec.Devices.Requests {
		if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil && exactly.AllocationMode == resourceapi.DeviceAllocationModeAll {
			exactly.AdminAccess = ptr.To(false)
		}
	}
	return claim
}
