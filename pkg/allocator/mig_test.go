package allocator_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/pkg/builder"
)

// migProfile is a kind of partition of a GPU (NVIDIA Multi-Instance GPU): where it
// can begin among the eight memory slices, how many it covers, and how many of the
// 132 multiprocessors it takes.
type migProfile struct {
	name            string
	starts          []int
	slices          int
	multiprocessors int
}

// migProfiles are those of an 80 GB GPU, in the order in which its driver lists them.
var migProfiles = []migProfile{
	{"1g.10gb", []int{0, 1, 2, 3, 4, 5, 6}, 1, 16},
	{"1g.20gb", []int{0, 2, 4, 6}, 2, 26},
	{"2g.20gb", []int{0, 2, 4}, 2, 32},
	{"3g.40gb", []int{0, 4}, 4, 60},
	{"4g.40gb", []int{0}, 4, 64},
	{"7g.80gb", []int{0}, 8, 132},
}

// migNode is a node whose GPUs can be partitioned in every way: one slice with the
// counters of all GPUs, and one with the placements for each GPU.
func migNode(gpus int) []*resourceapi.ResourceSlice {
	total := int64(gpus + 1)
	counters := b.Slice("counters").InPool("node-0", 1, total).OnNode("node-0")
	slices := []*resourceapi.ResourceSlice{}
	for gpu := range gpus {
		set := fmt.Sprintf("gpu-%d", gpu)
		published := []string{"multiprocessors", "132"}
		for i := range 8 {
			published = append(published, fmt.Sprintf("memory-slice-%d", i), "1")
		}
		counters.Counters(set, published...)
		partitions := b.Slice(set).InPool("node-0", 1, total).OnNode("node-0")
		for _, profile := range migProfiles {
			for _, start := range profile.starts {
				consumed := []string{"multiprocessors", fmt.Sprint(profile.multiprocessors)}
				for i := range profile.slices {
					consumed = append(consumed, fmt.Sprintf("memory-slice-%d", start+i), "1")
				}
				partitions.Devices(b.Device(fmt.Sprintf("%s-%s-%d", set, profile.name, start)).
					Attr("profile", profile.name).Attr("parent", set).Consumes(set, consumed...))
			}
		}
		slices = append(slices, partitions.Obj())
	}
	return append(slices, counters.Obj())
}

// migClaim asks for numbers of partitions: pairs of profile and count.
func migClaim(pairs ...any) []*resourceapi.ResourceClaim {
	var requests []*b.RequestBuilder
	for i := 0; i < len(pairs); i += 2 {
		requests = append(requests, b.Request(fmt.Sprintf("r%d", i/2), "any").Count(int64(pairs[i+1].(int))).
			Where(fmt.Sprintf(`%s.profile == %q`, attr, pairs[i])))
	}
	return []*resourceapi.ResourceClaim{b.Claim("claim", requests...).Obj()}
}
