package beside

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// What nodes have of which several claims use a part each. Two claims that collide need not
// hold the same device.
const (
	partsNodes = 4
	// wholesPerNode is how many whole things of each kind a node has.
	wholesPerNode = 3
	// partsPerWhole is how many claims can use one of them.
	partsPerWhole = 4
)

// Kinds of wholes. Partitions are called after their side and number: "a-3".
const (
	// gpu is a counter set with memory for partsPerWhole partitions. There are twice as many
	// devices, half of them for the pods of each scheduler: only the counter is short.
	gpu = "gpu"
	// nic is a shared device with a capacity for partsPerWhole shares.
	nic = "nic"
	// mig is a counter set with memory for all, whose devices of one side have no
	// compatibility group in common with those of the other.
	mig = "mig"
)

// sides are the two schedulers', by the order in which they were started.
var sides = []string{"a", "b"}

// partsFor is how many pods of each scheduler want a part, by kind. Those of gpu and nic want
// all that there is. A mig is for one side as long as it is in use, so each pod needs to find
// one of its own in the worst case.
var partsFor = map[string]int{
	gpu: partsNodes * wholesPerNode * partsPerWhole / 2,
	nic: partsNodes * wholesPerNode * partsPerWhole / 2,
	mig: partsNodes * wholesPerNode / 2,
}

// kindFor is the attribute of devices, and the name of the template, for the pods of one side
// that want a part of a kind.
func kindFor(kind, side string) string {
	if kind == nic {
		return nic
	}
	return kind + "-" + side
}

// newPartsBoard is newBoard with parts of wholes.
func newPartsBoard(t *testing.T, name string) *board {
	t.Helper()
	b := &board{Space: cluster.NewSpace(t, name, "", partsNodes)}
	for node := range partsNodes {
		counters, devices := b.wholesOf(node)
		for _, slice := range slices.Concat(counters, devices) {
			b.Create(slice)
		}
	}
	for _, side := range sides {
		for _, kind := range []string{gpu, mig} {
			b.Create(b.partTemplate(kindFor(kind, side), nil))
		}
	}
	b.Create(b.partTemplate(nic, map[string]string{"bandwidth": "1"}))
	return b
}

func (b *board) partTemplate(name string, capacity map[string]string) *resourceapi.ResourceClaimTemplate {
	part := b.Want(1, fmt.Sprintf("%s == %q", b.Attribute("for"), name)).Named("part")
	for name, amount := range capacity {
		part.Capacity(name, amount)
	}
	return builder.Claim(name, part).Template()
}

// wholesOf are the slices of a node. Each whole is a pool, called after the node, the kind and
// its number: nothing can be allocated from a pool any more of which a counter is overdrawn,
// and pods of kube-scheduler would wait for ever.
func (b *board) wholesOf(node int) (counters, devices []*resourceapi.ResourceSlice) {
	for number := range wholesPerNode {
		pool := func(kind string) string { return fmt.Sprintf("%s-%s-%d", b.Node(node), kind, number) }
		slice := func(kind, content string, count int64) *builder.SliceBuilder {
			return builder.Slice(pool(kind)+content).OfDriver(b.Driver).OnNode(b.Node(node)).InPool(pool(kind), 1, count)
		}
		for kind, memory := range map[string]int{gpu: partsPerWhole, mig: partsPerWhole * len(sides)} {
			partitions := slice(kind, "-devices", 2)
			for _, side := range sides {
				for part := range partsPerWhole {
					partitions.Devices(partition(kind, side, part))
				}
			}
			counters = append(counters, slice(kind, "-counters", 2).Counters("whole", "memory", fmt.Sprint(memory)).Obj())
			devices = append(devices, partitions.Obj())
		}
		shared := builder.Device(nic).Shared().Capacity("bandwidth", fmt.Sprint(partsPerWhole)).Attr("for", nic)
		devices = append(devices, slice(nic, "-devices", 1).Devices(shared).Obj())
	}
	return counters, devices
}

func partition(kind, side string, number int) *builder.DeviceBuilder {
	device := builder.Device(fmt.Sprintf("%s-%d", side, number)).Attr("for", kindFor(kind, side)).Consumes("whole", "memory", "1")
	if kind == mig {
		device.Modify(func(d *resourceapi.Device) { d.ConsumesCounters[0].CompatibilityGroups = []string{side} })
	}
	return device
}

// publishAnew has the drivers publish a new generation of all pools, one node after the other,
// until the context ends. For a moment each pool is not complete.
func (b *board) publishAnew(ctx context.Context) error {
	for ctx.Err() == nil {
		for node := range partsNodes {
			counters, devices := b.wholesOf(node)
			for _, half := range [][]*resourceapi.ResourceSlice{counters, devices} {
				for _, slice := range half {
					if err := nextGeneration(b.T.Context(), slice.Name); err != nil {
						return err
					}
				}
				pause(ctx)
			}
		}
	}
	return nil
}

func nextGeneration(ctx context.Context, name string) error {
	client := cluster.Client.ResourceV1().ResourceSlices()
	slice, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	slice.Spec.Pool.Generation++
	_, err = client.Update(ctx, slice, metav1.UpdateOptions{})
	return err
}

// pause spreads work over time; nothing depends on its length.
func pause(ctx context.Context) {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
