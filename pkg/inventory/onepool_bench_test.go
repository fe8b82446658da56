package inventory_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

var onePool = inventory.PoolID{Driver: b.Driver, Name: "one"}

// slicesOfOnePool makes n slices of two devices each, all of one pool: one for each node, or
// all for all nodes.
func slicesOfOnePool(n int, allNodes bool, revision int) []*resourceapi.ResourceSlice {
	published := make([]*resourceapi.ResourceSlice, n)
	for i := range published {
		slice := b.Slice(fmt.Sprintf("slice-%05d", i)).InPool(onePool.Name, 1, int64(n))
		for d := range 2 {
			slice.Devices(b.Device(fmt.Sprintf("device-%05d-%d", i, d)).Attr("revision", revision))
		}
		if allNodes {
			slice.OnAllNodes()
		} else {
			slice.OnNode(fmt.Sprintf("node-%d", i))
		}
		published[i] = slice.Obj()
	}
	return published
}

// BenchmarkOnePool measures the cost of a slice event by the number of slices of the pool, and the
// cost of reading the pool after each event: all of it, or one node's view.
func BenchmarkOnePool(bm *testing.B) {
	readers := map[string]func(*inventory.Store, int){
		"unread":     func(*inventory.Store, int) {},
		"everywhere": func(store *inventory.Store, _ int) { store.Pool(onePool).Everywhere() },
		"one node":   func(store *inventory.Store, i int) { store.OnNode(b.Node(fmt.Sprintf("node-%d", i))) },
	}
	for _, kind := range []string{"all nodes", "own"} {
		for _, reader := range []string{"unread", "everywhere", "one node"} {
			for _, n := range []int{1, 100, 1000, 5000} {
				bm.Run(fmt.Sprintf("%s/%s/slices=%d", kind, reader, n), func(bm *testing.B) {
					versions := [][]*resourceapi.ResourceSlice{slicesOfOnePool(n, kind == "all nodes", 1), slicesOfOnePool(n, kind == "all nodes", 2)}
					store := inventory.FromSlices(versions[1], all)
					bm.ReportAllocs()
					for i := 0; bm.Loop(); i++ {
						slice := versions[i/n%2][i%n]
						store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
						readers[reader](store, i%n)
					}
				})
			}
		}
	}
}

// BenchmarkRulesOfOnePool measures the cost of applying rules for devices of one pool of 10,000
// devices, one after the other, until the pool can be read: a driver's controller may make a rule
// for each device.
func BenchmarkRulesOfOnePool(bm *testing.B) {
	published := slicesOfOnePool(5000, true, 1)
	for _, n := range []int{1, 10, 100, 1000, 10000} {
		bm.Run(fmt.Sprintf("rules=%d", n), func(bm *testing.B) {
			rules := make([]*resourceapi.DeviceTaintRule, n)
			for i := range rules {
				rules[i] = ruleForDevice(fmt.Sprintf("rule-%05d", i), fmt.Sprintf("device-%05d-%d", i/2, i%2))
			}
			for bm.Loop() {
				bm.StopTimer()
				store := inventory.FromSlices(published, all)
				bm.StartTimer()
				for _, r := range rules {
					store.RefreshTaintRule(r.Name, func() *resourceapi.DeviceTaintRule { return r })
				}
				if store.Pool(onePool).Everywhere().Tainted.Len() != n {
					bm.Fatal("each rule taints a device")
				}
			}
			bm.ReportMetric(float64(bm.Elapsed().Nanoseconds())/float64(bm.N*n), "ns/rule")
		})
	}
}

func ruleForDevice(name, device string) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = name
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To(onePool.Driver), Pool: ptr.To(onePool.Name), Device: ptr.To(device)}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: name, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	return rule
}
