package allocationlog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

var poolA = inventory.PoolID{Driver: b.Driver, Name: "a"}

// overdrafts are those of pool "a", as "CAUSE DEVICE RESOURCE: first claims | the others".
func (w *world) overdrafts() []string {
	w.t.Helper()
	found, judged := w.Overdrawn(poolA)
	require.True(w.t, judged)
	texts := []string{}
	for _, d := range found {
		text := fmt.Sprintf("%s %s %s:", [...]string{Capacity: "capacity", Counter: "counter", Incompatible: "incompatible"}[d.Cause], d.Device, d.Resource)
		for i, claim := range d.Claims {
			if i == d.Enough {
				text += " |"
			}
			text += " " + claim.Name
		}
		texts = append(texts, text)
	}
	return texts
}

func TestOverdrawn(t *testing.T) {
	t.Parallel()
	shared := b.Slice("shared").InPool("a", 1, 3).OnAllNodes().Devices(b.Device("nic").Shared().Capacity("memory", "40Gi"))
	w := newWorld(t, shared, partitioned()[0].InPool("a", 1, 3), partitioned()[1].InPool("a", 1, 3))
	w.write(10, ours("x", "half-0"))
	w.write(20, sharing("s1", "nic", "s1", "30Gi"))
	w.write(30, ours("y", "half-1"))
	require.Empty(t, w.overdrafts())
	w.write(40, ours("z", "small-0"))
	w.write(50, sharing("s2", "nic", "s2", "20Gi"))
	w.write(60, ours("v", "small-1"))
	w.write(70, sharing("s3", "nic", "s3", "5Gi"))
	require.Equal(t, []string{"counter  gpu/memory: x y | z v", "capacity nic memory: s1 | s2 s3"}, w.overdrafts())

	found, _ := w.Overdrawn(poolA)
	require.Equal(t, "4 claims have more than there is of counter gpu/memory of pool gpu.example.com/a: "+
		"enough for default/x (resourceVersion 10), default/y (resourceVersion 30), not for default/z (resourceVersion 40), default/v (resourceVersion 60)", found[0].String())

	w.write(80, free("y"))
	require.Equal(t, []string{"capacity nic memory: s1 | s2 s3"}, w.overdrafts())
}

func TestOverdrawnGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, grouped()...)
	w.write(10, ours("x", "mig-0"))
	w.write(20, ours("y", "vgpu"))
	w.write(30, ours("z", "mig-1"))
	w.write(40, ours("v", "other"))
	require.Equal(t, []string{"incompatible  gpu: x | y z"}, w.overdrafts())
}

// What could not be judged when it was allocated is looked for when its pool is complete:
// after a restart the order of claims knows them before any slice is known.
func TestOverdraftsBeforeThePoolIsKnown(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t)
	w.relist(100, at(50, ours("x", "big")), at(60, ours("y", "half-0")))
	require.Equal(t, []inventory.PoolID{poolA}, w.TakeChanged())
	require.Empty(t, w.overdrafts())
	w.publish(partitioned()[0])
	require.Equal(t, []inventory.PoolID{poolA}, w.TakeChanged())
	_, judged := w.Overdrawn(poolA)
	require.False(t, judged)
	w.publish(partitioned()[1])
	require.Equal(t, []inventory.PoolID{poolA}, w.TakeChanged())
	require.Equal(t, []string{"counter  gpu/memory: x | y"}, w.overdrafts())
	require.Empty(t, w.TakeChanged())
}

// A driver may change the published amounts. Then no claim is written.
func TestOverdraftsOfANewGeneration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partitioned()...)
	w.write(10, ours("x", "half-0"))
	w.write(20, ours("y", "half-1"))
	w.TakeChanged()
	counters, devices := nextGeneration("30Gi")
	w.publish(counters)
	require.Equal(t, []inventory.PoolID{poolA}, w.TakeChanged())
	require.Empty(t, w.overdrafts(), "the last complete generation has enough")
	w.publish(devices)
	require.Equal(t, []inventory.PoolID{poolA}, w.TakeChanged())
	require.Equal(t, []string{"counter  gpu/memory: x | y"}, w.overdrafts())
	w.requireVerdicts(map[string]string{"x": "stays", "y": "earlier x: counter half-1 gpu/memory"})
}

// After a list the order is unknown. The claims that arrived first stay all the same, because some
// must stay.
func TestOverdraftsInUnknownOrder(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t, partitioned()...)
	w.relist(100, at(50, ours("x", "half-0")), at(40, ours("y", "half-1")), at(60, ours("z", "small-0")))
	require.Equal(t, []string{"counter  gpu/memory: y x | z"}, w.overdrafts())
}
