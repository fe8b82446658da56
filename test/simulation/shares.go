package simulation

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// shares is the theme of histories with devices whose capacity several claims consume (KEP-5075).
	shares = "shared devices"
	// sharesDriver publishes these devices: a pool for each node, with the node's name.
	sharesDriver = "shares.example.com"
)

// shareOf returns such a device by its number, which determines its capacities and their request policy: a range, a list of values, or
// any amount. The device may have less than usual, or be for one claim only.
func shareOf(i int, less, alone bool) *builder.DeviceBuilder {
	amount := func(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }
	device, memory := builder.Device(fmt.Sprintf("share-%d", i)).Attr("number", i), "8Gi"
	if less {
		memory = "6Gi"
	}
	if !alone {
		device.Shared()
	}
	switch {
	case i%3 == 2:
		return device.Capacity("memory", memory)
	case alone:
		return device.Capacity("memory", memory).Capacity("streams", "3")
	case i%3 == 0:
		return device.Capacity("memory", memory).Policy("memory", resourceapi.CapacityRequestPolicy{
			Default: amount("2Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: amount("2Gi"), Max: amount("6Gi"), Step: amount("2Gi")},
		})
	}
	return device.Capacity("memory", memory).Policy("memory", resourceapi.CapacityRequestPolicy{
		Default: amount("1Gi"), ValidValues: []resource.Quantity{*amount("1Gi"), *amount("2Gi"), *amount("4Gi")},
	}).Capacity("streams", "3").Policy("streams", resourceapi.CapacityRequestPolicy{Default: amount("1")})
}

func setupShares(g *generator) {
	g.setupDriver(shares, "share", g.publishShares)
	if g.has("extended resources") && g.one(2) {
		g.add(g.soon(), func(w *World) { w.nameClass("share", resourceNames[1]) }, "class share stands for %s", resourceNames[1])
	}
}

func changeShares(g *generator) {
	g.changeDevices(sharesDriver, g.publishShares, func() string { return fmt.Sprintf("share-%d", g.random.IntN(3)) })
}

// setupDriver creates the class and the templates of a theme, and has its driver publish the devices of all nodes.
func (g *generator) setupDriver(theme, class string, publish func(node string, after time.Duration)) {
	g.add(0, func(w *World) { w.createClass(class) }, "create class %s", class)
	g.createKinds(theme)
	for i := range g.history.nodes {
		publish(fmt.Sprintf("node-%d", i), 0)
	}
}

// changeDevices has a driver publish the devices of a node again, or taints one of them.
func (g *generator) changeDevices(driver string, publish func(node string, after time.Duration), device func() string) {
	node := g.anyNode()
	if g.one(2) {
		publish(node, g.soon())
		return
	}
	g.taintOf(driver, node, device())
}

// publishShares has the driver replace the devices of a node. They are in two slices, and the second slice may be late. Now and then the
// devices have less than usual, one of them is for one claim only, or both slices have the same device, so that the pool is not valid.
func (g *generator) publishShares(node string, after time.Duration) {
	generation, count := g.generationOf(sharesDriver+"/"+node), 1+g.random.IntN(4)
	less, alone, twice := g.one(4), -1, g.one(12)
	if g.one(4) {
		alone = g.random.IntN(count)
	}
	for index := range 2 {
		var devices []*builder.DeviceBuilder
		for i := range count {
			if index == 1 == (i >= count/2) || twice && i == count-1 {
				devices = append(devices, shareOf(i, less, i == alone))
			}
		}
		slice := sliceOf(sharesDriver, node, index, generation, 2).Devices(devices...)
		g.later(after+g.gap(index), func(w *World) { w.putSlice(slice.Obj()) },
			"publish shared devices of %s in generation %d, slice %d of 2: %d devices; less than usual: %t, for one claim: %d", node, generation, index+1, len(devices), less, alone)
	}
	g.now += after
}

// sliceOf returns a slice of the pool that a driver has for a node.
func sliceOf(driver, node string, index int, generation, slices int64) *builder.SliceBuilder {
	return builder.Slice(fmt.Sprintf("%s-%s-%d", node, driver, index)).OfDriver(driver).InPool(node, generation, slices).OnNode(node)
}

// generationOf returns the next generation of a pool.
func (g *generator) generationOf(name string) int64 {
	known := g.pools[name]
	if known == nil {
		known = &pool{}
		g.pools[name] = known
	}
	known.generation++
	return known.generation
}

// gap returns the delay of a slice after the first one: now and then so long that others see only half of the pool.
func (g *generator) gap(index int) time.Duration {
	if index == 0 || !g.one(4) {
		return 0
	}
	return time.Duration(g.random.IntN(20000)) * time.Millisecond
}

// taintOf taints a device of any driver for a while.
func (g *generator) taintOf(driver, node, device string) {
	name, effect := fmt.Sprintf("rule-%d", g.rules), pick(g, "NoSchedule", "NoExecute")
	g.rules++
	g.add(g.soon(), func(w *World) { w.createRuleOf(name, driver, node, device, effect) }, "taint device %s of %s with %s by %s", device, node, effect, name)
	g.later(g.soon(), func(w *World) { w.deleteRule(name) }, "delete %s", name)
}
