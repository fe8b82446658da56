package telemetry

import (
	"fmt"
	"testing"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// BenchmarkScrape reads the metrics of 10,000 nodes with 8 devices each and 20,000 claims with one device each: first
// with empty caches; changed, after 100 new claims; unchanged, without changes.
func BenchmarkScrape(b *testing.B) {
	const nodes, held = 10_000, 20_000
	filled := func() *world {
		w := newWorld()
		for i := range nodes {
			w.publish(builder.NodeSlice(fmt.Sprintf("n%d", i), builder.NumberedDevices("gpu", 8)...).Obj())
		}
		for i := range held {
			w.take(b, i, nodes)
		}
		return w
	}
	b.Run("first", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			c := registered(filled())
			b.StartTimer()
			collect(c)
		}
	})
	b.Run("changed", func(b *testing.B) {
		w := filled()
		c := registered(w)
		collect(c)
		for next := held; b.Loop(); {
			b.StopTimer()
			for range nodes / 100 {
				w.take(b, next, nodes)
				next++
			}
			b.StartTimer()
			collect(c)
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		c := registered(filled())
		collect(c)
		for b.Loop() {
			collect(c)
		}
	})
}

// registered returns a collector that can be asked.
func registered(w *world) *collector {
	c := newCollector(w.all)
	k8smetrics.NewKubeRegistry().CustomMustRegister(c)
	return c
}

// take has a claim hold a device.
func (w *world) take(b *testing.B, number, nodes int) {
	claim := builder.Claim(fmt.Sprintf("c%d", number), builder.Request("r", "gpu"))
	w.allocate(b, claim.Allocated(fmt.Sprintf("n%d", number%nodes), fmt.Sprintf("gpu-%d", number/nodes%8)))
}

// collect throws the metrics away.
func collect(c *collector) {
	metrics := make(chan k8smetrics.Metric, 1000)
	go func() {
		c.CollectWithStability(metrics)
		close(metrics)
	}()
	for range metrics {
	}
}
