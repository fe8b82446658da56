package simulation

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// pool is the state of a pool that a driver publishes.
type pool struct {
	generation int64
}

// deviceOf returns a device of a pool by its number, which determines its attributes.
func deviceOf(i int) *builder.DeviceBuilder {
	return builder.Device(fmt.Sprintf("dev-%d", i)).Attr("board", pick2(i/2, "a", "b")).Attr("size", pick2(i, "big", "small"))
}

func pick2(i int, even, odd string) string {
	if i%2 == 0 {
		return even
	}
	return odd
}

// publish makes the driver of a node publish its pool again in two slices, with other devices than before. Now and then
// the second slice is late.
func (g *generator) publish(node string, after time.Duration) {
	known := g.pools[node]
	if known == nil {
		known = &pool{}
		g.pools[node] = known
	}
	known.generation++
	generation, count := known.generation, 1+g.random.IntN(5)
	if generation == 1 {
		count = max(count, 2)
	}
	gap := time.Duration(0)
	if g.one(4) {
		gap = time.Duration(g.random.IntN(20000)) * time.Millisecond
	}
	g.add(after, func(w *World) { w.publish(node, generation, 0, 0, count/2) }, "publish %s in generation %d, slice 1 of 2: %d devices", node, generation, count/2)
	g.later(gap, func(w *World) { w.publish(node, generation, 1, count/2, count) }, "publish %s in generation %d, slice 2 of 2: %d devices", node, generation, count-count/2)
}

func (w *World) publish(node string, generation int64, index, from, to int) {
	var devices []*builder.DeviceBuilder
	for i := from; i < to; i++ {
		devices = append(devices, deviceOf(i))
	}
	name := fmt.Sprintf("%s-%d", node, index)
	w.putSlice(builder.Slice(name).OfDriver(driver).InPool(node, generation, 2).OnNode(node).Devices(devices...).Obj())
}

// putSlice creates a slice, or updates the stored one, unless that has a newer generation.
func (w *World) putSlice(slice *resourceapi.ResourceSlice) {
	api := w.client.ResourceV1().ResourceSlices()
	old, err := api.Get(w.ctx, slice.Name, metav1.GetOptions{})
	if err != nil {
		ignore(api.Create(w.ctx, slice, metav1.CreateOptions{}))
		return
	}
	if old.Spec.Pool.Generation > slice.Spec.Pool.Generation {
		return
	}
	slice.ResourceVersion = old.ResourceVersion
	ignore(api.Update(w.ctx, slice, metav1.UpdateOptions{}))
}
