package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// driver is that of all slices for which no other is named.
const driver = builder.Driver

// world is a scheduler with a given state.
type world struct {
	*cluster.State
}

func newWorld(slices ...*builder.SliceBuilder) *world {
	w := &world{&cluster.State{
		Inventory: inventory.NewStore(inventory.Options{PartitionableDevices: true}),
		Ledger:    ledger.New(),
		Claims:    cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
	}}
	for _, slice := range slices {
		w.publish(slice.Obj())
	}
	return w
}

func (w *world) publish(slice *resourceapi.ResourceSlice) {
	w.Inventory.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
}

// allocate has a claim hold devices.
func (w *world) allocate(t testing.TB, claim *resourceapi.ResourceClaim) {
	claim.UID = types.UID(claim.Name)
	require.NoError(t, w.Claims.Add(claim))
	w.Ledger.Refresh("default/"+claim.Name, func() *resourceapi.ResourceClaim { return claim })
}

func (w *world) all() []Scheduler {
	return []Scheduler{{State: w.State, Guard: inPlace(true)}}
}

// served has a registry serve some metrics, without those that are 0.
func (w *world) served(t *testing.T, name string) string {
	t.Helper()
	registry := k8smetrics.NewKubeRegistry()
	registry.CustomMustRegister(newCollector(w.all))
	families, err := registry.Gather()
	require.NoError(t, err)
	var lines []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			if family.GetName() == "quartermaster_"+name && metric.GetGauge().GetValue() != 0 {
				lines = append(lines, fmt.Sprintf("%s %v", strings.Join(labels, " "), metric.GetGauge().GetValue()))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func lines(all ...string) string { return strings.Join(all, "\n") }

func TestDevicesByState(t *testing.T) {
	t.Parallel()
	w := newWorld(
		builder.NodeSlice("n1", builder.Devices("gpu-0", "gpu-1", "gpu-2")...),
		builder.NodeSlice("n2",
			builder.Device("held").Taint("broken", resourceapi.DeviceTaintEffectNoExecute),
			builder.Device("no-schedule").Taint("a", resourceapi.DeviceTaintEffectNoSchedule),
			builder.Device("no-execute").Taint("a", resourceapi.DeviceTaintEffectNoExecute),
			builder.Device("none").Taint("a", resourceapi.DeviceTaintEffectNone),
			builder.Device("in-shares").Shared().Taint("a", resourceapi.DeviceTaintEffectNoSchedule),
			builder.Device("no-share-yet").Shared()),
		builder.Slice("fabric").InPool("fabric", 1, 1).OnAllNodes().Devices(builder.Devices("nic-0", "nic-1")...),
		builder.Slice("half").InPool("half", 1, 2).OnNode("n3").Devices(builder.Devices("x", "y")...),
		builder.Slice("twice").InPool("twice", 1, 1).OnNode("n3").Devices(builder.Devices("z", "z")...),
	)
	w.allocate(t, builder.Claim("c1", builder.Request("r", "gpu").Count(2)).Allocated("n1", "gpu-0", "gpu-2"))
	w.allocate(t, builder.Claim("c2", builder.Request("r", "gpu")).Allocated("n2", "held"))
	share := builder.Claim("c3", builder.Request("r", "gpu")).Allocated("n2", "in-shares")
	share.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID("share"))
	w.allocate(t, share)
	planned := builder.Claim("c4", builder.Request("r", "gpu")).Allocated("fabric", "nic-1")
	require.NoError(t, w.Ledger.AddInFlight(ledger.RefTo(planned), "pod", planned.Status.Allocation))
	w.allocate(t, builder.Claim("c5", builder.Request("r", "gpu")).Allocated("half", "x"))

	require.Equal(t, lines(
		driver+" node allocated 3", driver+" node free 3", driver+" node shared 1", driver+" node tainted 2", driver+" node unusable 4",
		driver+" shared allocated 1", driver+" shared free 1",
	), w.served(t, "devices"))
	require.Equal(t, lines(driver+" node complete 2", driver+" node incomplete 1", driver+" node invalid 1", driver+" shared complete 1"),
		w.served(t, "pools"))
	require.EqualValues(t, 1, inFlight(w.all()))
}

// TestPartitions: while part of a device is in use, the whole is not free, although no claim holds it.
func TestPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(
		builder.Slice("counters").InPool("n1", 1, 2).OnNode("n1").Counters("gpu", "memory", "40Gi"),
		builder.Slice("devices").InPool("n1", 1, 2).OnNode("n1").Devices(
			builder.Device("whole").Consumes("gpu", "memory", "40Gi"),
			builder.Device("half-0").Consumes("gpu", "memory", "20Gi"),
			builder.Device("half-1").Consumes("gpu", "memory", "20Gi")),
	)
	require.Equal(t, driver+" node free 3", w.served(t, "devices"))
	w.allocate(t, builder.Claim("c", builder.Request("r", "gpu")).Allocated("n1", "half-1"))
	require.Equal(t, lines(driver+" node allocated 1", driver+" node exhausted 1", driver+" node free 1"), w.served(t, "devices"))
}

// TestKinds: a pool is a node's only if all of its slices are for that node alone.
func TestKinds(t *testing.T) {
	t.Parallel()
	part := func(name string) *builder.SliceBuilder {
		return builder.Slice(name).InPool("p", 1, 2).Devices(builder.Device(name))
	}
	for name, test := range map[string]struct {
		slices []*builder.SliceBuilder
		want   string
	}{
		"one node":         {[]*builder.SliceBuilder{part("a").OnNode("n1"), part("b").OnNode("n1")}, "node"},
		"two nodes":        {[]*builder.SliceBuilder{part("a").OnNode("n1"), part("b").OnNode("n2")}, "shared"},
		"also all nodes":   {[]*builder.SliceBuilder{part("a").OnNode("n1"), part("b").OnAllNodes()}, "shared"},
		"also by label":    {[]*builder.SliceBuilder{part("a").OnLabeled("zone", "a"), part("b").OnNode("n1")}, "shared"},
		"each its devices": {[]*builder.SliceBuilder{builder.Slice("a").InPool("p", 1, 1).PerDevice().Devices(builder.Device("a").OnNode("n1"), builder.Device("b").OnNode("n1"))}, "shared"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, driver+" "+test.want+" free 2", newWorld(test.slices...).served(t, "devices"))
		})
	}
}

func TestRoomOnNodes(t *testing.T) {
	t.Parallel()
	var slices []*builder.SliceBuilder
	for i, n := range []int{0, 1, 1, 2, 3, 4, 7, 8, 15, 16, 40} {
		slices = append(slices, builder.NodeSlice(fmt.Sprintf("n%d", i), builder.NumberedDevices("gpu", n)...))
	}
	slices = append(slices,
		builder.Slice("second").InPool("second", 1, 1).OnNode("n10").Devices(builder.NumberedDevices("more", 2)...),
		builder.Slice("fabric").InPool("fabric", 1, 1).OnAllNodes().Devices(builder.NumberedDevices("nic", 99)...))
	w := newWorld(slices...)
	require.Equal(t, lines(driver+" 1 2", driver+" 16+ 58", driver+" 2-3 5", driver+" 4-7 11", driver+" 8-15 23"), w.served(t, "node_free_devices"))
	require.Equal(t, driver+" 42", w.served(t, "node_free_devices_max"))
	w.allocate(t, builder.Claim("c", builder.Request("r", "gpu")).Allocated("n1", "gpu-0"))
	require.Contains(t, w.served(t, "node_free_devices"), driver+" 1 1\n")
}

func TestAllocatedByClass(t *testing.T) {
	t.Parallel()
	w := newWorld()
	claim := builder.Claim("c", builder.Request("a", "gpu"), builder.FirstAvailable("b", builder.Request("x", "big"), builder.Request("y", "small"))).
		Allocated("n1", "d0", "d1", "d2", "d3", "d4", "d5", "d7")
	results := claim.Status.Allocation.Devices.Results
	for i, request := range []string{"a", "a", "b/y", "b", "b/z", "a", "b-y"} {
		results[i].Request = request
	}
	results[5].AdminAccess = ptr.To(true)
	w.allocate(t, claim)
	w.allocate(t, builder.Claim("none", builder.Request("r", "gpu")).Obj())
	w.allocate(t, builder.Claim("more", builder.Request("r", "small")).Allocated("n1", "d6"))
	require.Equal(t, lines("gpu 2", "small 2"), w.served(t, "allocated_devices"))
}

// TestBounds: however many drivers and classes there are, there are few series, and nothing is left out of sums.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld()
	const names = 3 * valuesPerLabel
	for i := range names {
		d := fmt.Sprintf("d%03d.example.com", i)
		w.publish(builder.NodeSlice(fmt.Sprintf("n%d", i), builder.NumberedDevices("gpu", i+1)...).OfDriver(d).Obj())
		w.allocate(t, builder.Claim(d, builder.Request("r", d)).Allocated("elsewhere", "x"))
	}
	sum := 0
	for i := valuesPerLabel; i < names; i++ {
		sum += i + 1
	}
	devices := strings.Split(w.served(t, "devices"), "\n")
	require.Len(t, devices, valuesPerLabel+1)
	require.Equal(t, "d000.example.com node free 1", devices[0])
	require.Equal(t, fmt.Sprintf("other node free %d", sum), devices[valuesPerLabel])
	require.Contains(t, w.served(t, "node_free_devices_max"), fmt.Sprintf("other %d", names))
	require.Contains(t, w.served(t, "node_free_devices"), fmt.Sprintf("other 16+ %d", sum))
	require.Contains(t, w.served(t, "pools"), fmt.Sprintf("other node complete %d", names-valuesPerLabel))
	classes := strings.Split(w.served(t, "allocated_devices"), "\n")
	require.Len(t, classes, valuesPerLabel+1)
	require.Equal(t, fmt.Sprintf("other %d", names-valuesPerLabel), classes[valuesPerLabel])
}

// TestSomebodyIsCalledOther: what has that name is counted with the rest.
func TestSomebodyIsCalledOther(t *testing.T) {
	t.Parallel()
	sums := map[string]int{rest: 1000}
	for i := range valuesPerLabel + 2 {
		sums[fmt.Sprintf("d%02d", i)] = 1
	}
	result := bounded(sums, func(into, from int) int { return into + from })
	require.Len(t, result, valuesPerLabel+1)
	require.Equal(t, 1002, result[rest])
}

// TestOnlyWhatChangedIsCountedAgain: a pool that is as it was costs nothing but two look-ups.
func TestOnlyWhatChangedIsCountedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(builder.NodeSlice("n1", builder.Devices("a", "b")...), builder.NodeSlice("n2", builder.Devices("a", "b")...), builder.NodeSlice("n3"))
	of := func(c counts, pool string) *poolCount {
		return c[inventory.KeyOf(inventory.PoolID{Driver: driver, Name: pool})]
	}
	first := counts(nil).next(w.State)
	again := first.next(w.State)
	require.Len(t, again, 3)
	for key := range first {
		require.Same(t, first[key], again[key])
	}
	w.allocate(t, builder.Claim("c", builder.Request("r", "gpu")).Allocated("n1", "a"))
	w.publish(builder.NodeSlice("n2", builder.Devices("a", "b", "c")...).Obj())
	w.Inventory.RefreshSlice(builder.NodeSlice("n3").Obj().Name, func() *resourceapi.ResourceSlice { return nil })
	next := again.next(w.State)
	require.Len(t, next, 2, "the third pool is gone")
	require.Equal(t, 1, of(next, "n1").devices[allocated])
	require.Equal(t, 3, of(next, "n2").devices[free])
	w.publish(builder.NodeSlice("n2", builder.Devices("a")...).Obj())
	last := next.next(w.State)
	require.Same(t, of(next, "n1"), of(last, "n1"))
	require.Equal(t, 1, of(last, "n2").devices[free])
}

// inPlace says whether a guard is in place.
type inPlace bool

func (i inPlace) InPlace() bool { return bool(i) }

// TestGuarded: the guard is in place only if it is for all.
func TestGuarded(t *testing.T) {
	t.Parallel()
	yes, no := Scheduler{Guard: inPlace(true)}, Scheduler{Guard: inPlace(false)}
	require.EqualValues(t, 1, guarded([]Scheduler{yes, yes}))
	require.EqualValues(t, 0, guarded([]Scheduler{yes, no}))
}
