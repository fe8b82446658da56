package whatif_test

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// An autoscaler asks how many of the pods that wait would fit on nodes of a kind that it could add, and a quota system
// how many more of some shape a tenant could be promised.
func Example() {
	ctx := context.Background()
	// A cluster of one node with two GPUs, one of them in use. Objects also come from a Source, from the caches of informers
	// (FromListers), and from a dump.
	objects := cluster(1, 2)
	holding(&objects, "holder", "node-0000", "gpu-0")
	now := whatif.New(objects, whatif.Options{})
	waiting := []*v1.Pod{user("train-0", "two"), user("train-1", "two"), user("train-2", "two")}

	// The autoscaler.
	kind := cluster(2, 4)
	for nodes := 0; ; nodes++ {
		var more whatif.Objects
		for i := range nodes {
			name := fmt.Sprintf("new-%d", i)
			more.Nodes = append(more.Nodes, node(name))
			more.Slices = append(more.Slices, builder.NodeSlice(name, builder.NumberedDevices("gpu", 4)...).Obj())
		}
		answer, err := now.With(more).Fit(ctx, waiting...)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d nodes of %d GPUs more: %s, %d of %d pods\n", nodes, len(kind.Slices[0].Spec.Devices), answer.Verdict, len(answer.Plans), len(waiting))
		if answer.Verdict == whatif.Fits {
			break
		}
	}

	// The quota system.
	room, world := 0, now.With(whatif.Objects{Templates: []*resourceapi.ResourceClaimTemplate{template("promise", 1)}})
	for {
		answer, err := world.Fit(ctx, user(fmt.Sprintf("promise-%d", room), "promise"))
		if err != nil || answer.Verdict != whatif.Fits {
			break
		}
		room, world = room+1, answer.After
	}
	fmt.Printf("room for %d more claims of one GPU\n", room)

	// Why not more?
	why, err := now.Explain(ctx, waiting[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	near := why.Nearest[0]
	fmt.Printf("%s lacks %s\n", near.Node, strings.Join(near.Lacking, ", "))
	// Output:
	// 0 nodes of 4 GPUs more: DoesNotFit, 0 of 3 pods
	// 1 nodes of 4 GPUs more: DoesNotFit, 2 of 3 pods
	// 2 nodes of 4 GPUs more: Fits, 3 of 3 pods
	// room for 1 more claims of one GPU
	// node-0000 lacks one more free device of class gpu.example.com for request gpu
}
