package facts

import (
	"fmt"
	"testing"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// large has 1,000 nodes with 8 GPUs each, and a pod for each of 7 GPUs there: nowhere two are free.
func large() *whatif.Objects {
	const nodes, devices = 1000, 8
	o := numaWorld(nodes, devices)
	for i := range nodes {
		for j := range devices - 1 {
			name := fmt.Sprintf("pod-%d-%d", i, j)
			holding(o, name, fmt.Sprintf("node-%d", i), gpus(name, 1), fmt.Sprintf("gpu-%d", j))
		}
	}
	return o
}

// BenchmarkLarge asks for moves in a large cluster that is nearly full.
func BenchmarkLarge(b *testing.B) {
	o := large()
	two := wanting(o, "two", builder.Claim("two", builder.Request("gpu", builder.Driver).Count(2)))
	five := wanting(o, "five", builder.Claim("five", builder.Request("gpu", builder.Driver).Count(5)))
	fresh := func(b *testing.B) *whatif.Snapshot {
		b.StopTimer()
		s := whatif.New(*o, whatif.Options{})
		b.StartTimer()
		return s
	}
	b.Run("one move", func(b *testing.B) {
		for b.Loop() {
			if advice, err := RoomFor(b.Context(), fresh(b), two); err != nil || len(advice.Moves) != 1 {
				b.Fatal(advice, err)
			}
		}
	})
	b.Run("no moves", func(b *testing.B) {
		for b.Loop() {
			if advice, err := RoomFor(b.Context(), fresh(b), five); err != nil || advice.Node != "" || !advice.Fewest {
				b.Fatal(advice, err)
			}
		}
	})
}
