package guard

import (
	"testing"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestWithdrawnInUse: what a device in use drew counts also when it is not published any more (kubernetes #140802). If it
// went before the guard was there, nothing is allocated that draws on counters of its pool.
func TestWithdrawnInUse(t *testing.T) {
	t.Parallel()
	generation := func(n int64, devices ...string) []*b.SliceBuilder {
		slices := []*b.SliceBuilder{b.Slice("counters").OnNode("a").InPool("mig", n, 2).Counters("whole", "memory", "2"), b.Slice("devices").OnNode("a").InPool("mig", n, 2)}
		for _, name := range devices {
			draws := "1"
			if name == "whole" {
				draws = "2"
			}
			slices[1].Devices(b.Device(name).Consumes("whole", "memory", draws))
		}
		return slices
	}
	w := newBoard(t, generation(1, "half-0", "half-1", "whole")...)
	w.watch("x", at(1, b.Claim("x").Allocated("mig", "half-0")))
	for _, slice := range generation(2, "half-1", "whole") {
		w.publish(slice.Obj())
	}
	w.requireDenied("too little is left of counter whole/memory", 1, b.Claim("q").Allocated("mig", "whole"))
	w.requireAllowed(1, b.Claim("p").Allocated("mig", "half-1"))

	late := newBoard(t, generation(2, "half-1", "whole")...)
	late.watch("x", at(1, b.Claim("x").Allocated("mig", "half-0")))
	late.requireDenied("device half-0 of that pool is in use and its driver does not publish it any more", 1, b.Claim("p").Allocated("mig", "half-1"))
	late.watch("x", nil)
	late.requireAllowed(1, b.Claim("p").Allocated("mig", "half-1"))
}
