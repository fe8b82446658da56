package inventory_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// twoGPUs is a pool with two counter sets and devices that draw from them.
func twoGPUs(t *testing.T) *inventory.NodePool {
	t.Helper()
	slices := []*resourceapi.ResourceSlice{
		b.Slice("counters").InPool("a", 1, 2).OnNode("n").
			Counters("gpu-1", "memory", "40Gi", "engines", "7").
			Counters("gpu-0", "memory", "40Gi", "engines", "7").Obj(),
		b.Slice("devices").InPool("a", 1, 2).OnNode("n").Devices(
			b.Device("plain"),
			b.Device("half-0").Consumes("gpu-0", "memory", "20Gi", "engines", "3"),
			b.Device("half-1").Consumes("gpu-1", "memory", "20Gi", "engines", "3"),
			b.Device("third-1").Consumes("gpu-1", "memory", "10Gi"),
			b.Device("both").Consumes("gpu-0", "engines", "5").Consumes("gpu-1", "engines", "1"),
		).Obj(),
	}
	pools := inventory.FromSlices(slices, inventory.Options{PartitionableDevices: true}).OnNode(b.Node("n"))
	require.Len(t, pools, 1)
	require.Equal(t, inventory.Complete, pools[0].State, pools[0].Reason)
	return pools[0]
}

func TestCountersAreNumberedBySetAndName(t *testing.T) {
	c := twoGPUs(t).Counters
	require.Equal(t, []string{"gpu-0", "gpu-1"}, c.Sets)
	require.Equal(t, []string{"engines", "memory", "engines", "memory"}, c.Names)
	first, end := c.Range(1)
	require.Equal(t, []int{2, 4}, []int{first, end})
}

func TestDraws(t *testing.T) {
	pool := twoGPUs(t)
	c := pool.Counters
	require.Empty(t, c.Draws(0))
	left := append(c.Published[:0:0], c.Published...)
	leftOf := func(number int) string {
		value := left[number].Quantity(c.Formats[number])
		return value.String()
	}
	half := c.Draws(1)[0]
	require.True(t, half.CoveredBy(left))
	half.TakeFrom(left)
	require.Equal(t, []string{"4", "20Gi", "7", "40Gi"}, []string{leftOf(0), leftOf(1), leftOf(2), leftOf(3)})
	require.True(t, half.CoveredBy(left))
	half.TakeFrom(left)
	require.False(t, half.CoveredBy(left))
	half.ReturnTo(left)
	half.ReturnTo(left)
	require.Equal(t, c.Published, left)

	require.Equal(t, half.AppendTo(nil), c.Draws(2)[0].AppendTo(nil), "the same of another set")
	require.NotEqual(t, half.AppendTo(nil), c.Draws(3)[0].AppendTo(nil))
	both := c.Draws(4)
	require.Len(t, both, 2)
	require.Equal(t, []int{0, 1}, []int{both[0].Set, both[1].Set})
	numbers := []int{}
	for number := range both[1].All() {
		numbers = append(numbers, number)
	}
	require.Equal(t, []int{2}, numbers)
}
