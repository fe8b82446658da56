package allocator_test

import (
	"fmt"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// knapsack makes a cluster in which a number of devices is available together only if their weights add up to
// exactly total: one counter sets the maximum, another the minimum. No two devices are alike and each is
// available by itself, so that only trying finds the possible combinations.
func knapsack(weights []int, number, total int) (cluster, *b.ClaimBuilder) {
	const heaviest = 1 << 20
	slice := b.Slice("devices").InPool("p", 1, 2).OnNode("n")
	for i, weight := range weights {
		slice.Devices(b.Device(fmt.Sprintf("gpu-%02d", i)).Attr("id", i).
			Consumes("set", "weight", fmt.Sprint(weight), "lightness", fmt.Sprint(heaviest-weight)))
	}
	counters := b.Slice("counters").InPool("p", 1, 2).OnNode("n").
		Counters("set", "weight", fmt.Sprint(total), "lightness", fmt.Sprint(number*heaviest-total))
	c := cluster{slices: []*b.SliceBuilder{counters, slice}}
	return c, b.Claim("hard", b.Request("gpu", "gpu").Count(int64(number)))
}

// hard makes a cluster and a claim whose only solution comes after thousands of
// steps: weights are powers of two, so it is the last combination and no other.
func hard() (cluster, *b.ClaimBuilder) {
	const devices, number = 15, 6
	var weights []int
	total := 0
	for i := range devices {
		weights = append(weights, 1<<i)
		if i >= devices-number {
			total += 1 << i
		}
	}
	return knapsack(weights, number, total)
}

// infeasible makes a cluster and a claim with too many combinations of devices to try them all. None is a
// solution, because even weights do not add up to an odd number.
func infeasible() (cluster, *b.ClaimBuilder) {
	var weights []int
	for i := range 64 {
		weights = append(weights, 2*i)
	}
	return knapsack(weights, 16, 16*64+1)
}
