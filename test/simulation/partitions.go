package simulation

import (
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// partitions is the theme of histories with cards whose partitions draw from the same counters (KEP-4815).
	partitions = "partitionable devices"
	// partsDriver publishes these cards: a pool for each node, with the node's name. The counters are in a slice of their own.
	partsDriver = "parts.example.com"
	// partSlices is the number of slices of such a pool: one with counters, and two with devices.
	partSlices = 3
)

// partSizes are the devices of a card, with their names and what they consume of the card's 4 slots and 40Gi. Several claims may have
// shares of the last device, which consumes from the counters only once.
var partSizes = []struct{ name, size, slots, memory string }{
	{"whole", "whole", "4", "40Gi"},
	{"half-0", "half", "2", "20Gi"},
	{"half-1", "half", "2", "20Gi"},
	{"quarter-0", "quarter", "1", "10Gi"},
	{"quarter-1", "quarter", "1", "10Gi"},
	{"quarter-2", "quarter", "1", "10Gi"},
	{"quarter-3", "quarter", "1", "10Gi"},
	{"shared", "shared", "1", "10Gi"},
}

// cardOf is the counter set of a card by its number.
func cardOf(card int) string { return fmt.Sprintf("card-%d", card) }

// partOf returns a device of a card.
func partOf(card, i int) *builder.DeviceBuilder {
	p := partSizes[i]
	device := builder.Device(cardOf(card)+"-"+p.name).Attr("size", p.size).Attr("card", cardOf(card)).Consumes(cardOf(card), "slots", p.slots, "memory", p.memory)
	if p.size == "shared" {
		device.Shared().Capacity("memory", p.memory).Policy("memory", resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("2Gi"))})
	}
	return device
}

func setupPartitions(g *generator) { g.setupDriver(partitions, "part", g.publishParts) }

func changePartitions(g *generator) {
	g.changeDevices(partsDriver, g.publishParts, func() string { return cardOf(0) + "-" + pick(g, partSizes...).name })
}

// publishParts has the driver publish the cards of a node: their counters, and the devices in two slices. The slices come in any order,
// and one or two of them may be late. Now and then a size is missing, the counters are smaller, or the last card has no counters, so
// that the pool is not valid.
func (g *generator) publishParts(node string, after time.Duration) {
	generation, cards := g.generationOf(partsDriver+"/"+node), 1+g.random.IntN(2)
	without, slots, counted := "", "4", cards
	if g.one(3) {
		without = pick(g, partSizes...).size
	}
	if g.one(4) {
		slots = "3"
	}
	if g.one(12) {
		counted--
	}
	for position, index := range g.random.Perm(partSlices) {
		slice := sliceOf(partsDriver, node, index, generation, partSlices)
		for card := range cards {
			partsOfCard(slice, index, card, card < counted, slots, without)
		}
		g.later(after+g.gap(position), func(w *World) { w.putSlice(slice.Obj()) },
			"publish %d cards of %s in generation %d, slice %d of %d; slots: %s, cards with counters: %d, without size: %q", cards, node, generation, index+1, partSlices, slots, counted, without)
	}
	g.now += after
}

// partsOfCard adds a card's part of a slice: the counters in slice 0, some of the devices in the other slices.
func partsOfCard(slice *builder.SliceBuilder, index, card int, counted bool, slots, without string) {
	switch {
	case index > 0:
		for i := range partSizes {
			if i%2 == index-1 && partSizes[i].size != without {
				slice.Devices(partOf(card, i))
			}
		}
	case counted:
		slice.Counters(cardOf(card), "slots", slots, "memory", "40Gi")
	}
}

// drawsOnWithdrawn reports whether a text names a device of a pool that has an allocated device which draws from counters and is not
// published any more. Such a device still draws from the counters, but upstream's allocator does not count it.
func (w *World) drawsOnWithdrawn(text string) bool {
	s := w.server.store
	s.mutex.Lock()
	defer s.mutex.Unlock()
	newest, there := map[string]int64{}, map[deviceID]bool{}
	slices := s.collections["resource.k8s.io/v1/resourceslices"].sorted()
	for _, add := range []bool{false, true} {
		for _, o := range slices {
			spec := o.typed(Resource{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}).(*resourceapi.ResourceSlice).Spec
			pool := spec.Driver + "/" + spec.Pool.Name
			newest[pool] = max(newest[pool], spec.Pool.Generation)
			for i := range spec.Devices {
				if add && spec.Pool.Generation == newest[pool] {
					there[deviceID{spec.Driver, spec.Pool.Name, spec.Devices[i].Name}] = true
				}
			}
		}
	}
	for _, claim := range s.collections["resource.k8s.io/v1/resourceclaims"].sorted() {
		if !isAllocated(claim.fields) {
			continue
		}
		for _, u := range usesOf(claim) {
			id := idOf(u.result)
			if device := w.published.devices[id]; len(device.ConsumesCounters) > 0 && !there[id] && strings.Contains(text, id.driver+"/"+id.pool+"/") {
				return true
			}
		}
	}
	return false
}
