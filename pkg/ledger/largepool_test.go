package ledger_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// largePool makes the slices of one pool for all nodes, with up to 128 devices in each. With
// partitions, each device draws from the counter set of its group of eight, which is enough
// for five of them.
func largePool(devices int, partitions bool) []*resourceapi.ResourceSlice {
	var list []*resourceapi.ResourceSlice
	var builders []*b.SliceBuilder
	for first := 0; first < devices; first += 128 {
		slice := b.Slice(fmt.Sprintf("slice-%04d", first/128)).OnAllNodes()
		for i := first; i < min(first+128, devices); i++ {
			device := b.Device(deviceName(i))
			if partitions {
				device.Consumes(fmt.Sprintf("set-%05d", i/8), "size", "1")
			}
			slice.Devices(device)
		}
		builders = append(builders, slice)
	}
	if partitions {
		for first := 0; first < devices; first += 64 {
			slice := b.Slice(fmt.Sprintf("z-counters-%04d", first/64)).OnAllNodes()
			for set := first / 8; set < (min(first+64, devices)+7)/8; set++ {
				slice.Counters(fmt.Sprintf("set-%05d", set), "size", "5")
			}
			builders = append(builders, slice)
		}
	}
	for _, slice := range builders {
		list = append(list, slice.InPool("shared", 1, int64(len(builders))).Obj())
	}
	return list
}

func deviceName(i int) string { return fmt.Sprintf("device-%05d", i) }

// TestLargePoolIsKeptUp: values derived from the usage of a large pool are updated incrementally.
// They equal the values that are derived from scratch.
func TestLargePoolIsKeptUp(t *testing.T) {
	const devices = 200
	for _, partitions := range []bool{false, true} {
		t.Run(fmt.Sprintf("partitions=%t", partitions), func(t *testing.T) {
			pool := inventory.FromSlices(largePool(devices, partitions), inventory.Options{PartitionableDevices: true}).OnNode(b.Node("n"))[0]
			require.Equal(t, inventory.Complete, pool.State, pool.Reason)
			random := rand.New(rand.NewSource(7))
			l, known := ledger.New(), make(map[string]map[string]ledger.DeviceUsage)
			for step := range 600 {
				name := fmt.Sprint("c-", random.Intn(60))
				var claim *resourceapi.ResourceClaim
				usages := make(map[string]ledger.DeviceUsage)
				if random.Intn(4) > 0 {
					claim, usages = randomClaim(random, name, step, devices)
				}
				refresh(l, name, claim)
				known[name] = usages
				if random.Intn(3) == 0 {
					continue // Nothing is derived in this round.
				}
				require.Equal(t, derived(ledger.NewPoolUsage(joined(known)), pool), derived(l.Pool(pool.ID), pool), "step %d", step)
			}
		})
	}
}

// randomClaim has some devices for itself and shares of others.
func randomClaim(random *rand.Rand, name string, version, devices int) (*resourceapi.ResourceClaim, map[string]ledger.DeviceUsage) {
	claim := versioned(b.Claim(name).Allocated("shared"), version)
	usages := make(map[string]ledger.DeviceUsage)
	for i := range random.Intn(4) {
		device := deviceName(random.Intn(devices + 3)) // Some are not published.
		result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: b.Driver, Pool: "shared", Device: device}
		usage := usages[device]
		if random.Intn(3) == 0 {
			id := types.UID(fmt.Sprint(name, version, i))
			result.ShareID = &id
			usage.Shares = append(usage.Shares, ledger.Share{Holder: ledger.RefTo(claim), ID: id})
		} else {
			usage.Holders = append(usage.Holders, ledger.RefTo(claim))
		}
		usages[device] = usage
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
	}
	return claim, usages
}

func joined(byClaim map[string]map[string]ledger.DeviceUsage) map[string]ledger.DeviceUsage {
	all := make(map[string]ledger.DeviceUsage)
	for _, usages := range byClaim {
		for device, usage := range usages {
			all[device] = ledger.DeviceUsage{
				Holders: append(all[device].Holders, usage.Holders...), Shares: append(all[device].Shares, usage.Shares...),
			}
		}
	}
	return all
}

// derived is all that is derived from a usage, as text.
func derived(usage *ledger.PoolUsage, pool *inventory.NodePool) string {
	members := func(set interface{ Has(int) bool }, empty bool) (list []int) {
		for i := range pool.Devices {
			if !empty && set.Has(i) {
				list = append(list, i)
			}
		}
		return list
	}
	occupied, held, shared, exhausted := usage.Occupied(pool), usage.Held(pool), usage.Shared(pool), usage.Exhausted(pool)
	remaining := usage.Remaining(pool)
	return fmt.Sprint(usage.Len(), members(occupied, occupied == nil), members(held, held == nil), members(shared, shared == nil),
		members(exhausted, exhausted == nil), remaining.Amounts, remaining.Overdrawn)
}

// BenchmarkLargePool measures what an event about a claim costs, up to what a node sees of
// the pool after it: a device is allocated, until all are, or is free again.
func BenchmarkLargePool(bm *testing.B) {
	for _, partitions := range []bool{false, true} {
		for _, devices := range []int{8, 100, 1000, 10000} {
			bm.Run(fmt.Sprintf("partitions=%t/devices=%d", partitions, devices), func(bm *testing.B) {
				pool := inventory.FromSlices(largePool(devices, partitions), inventory.Options{PartitionableDevices: true}).OnNode(b.Node("n"))[0]
				l := ledger.New()
				l.Pools = func(inventory.PoolID) *inventory.NodePool { return pool }
				claims := make([]*resourceapi.ResourceClaim, devices)
				for i := range claims {
					claims[i] = b.Claim(deviceName(i)).Allocated("shared", deviceName(i))
				}
				bm.ReportAllocs()
				for i := 0; bm.Loop(); i++ {
					claim := claims[i%devices]
					if i/devices%2 == 0 {
						if !partitions || i%8 < 5 {
							if err := l.AddInFlight(ledger.RefTo(claim), "pod", claim.Status.Allocation); err != nil {
								bm.Fatal(err)
							}
						}
					} else {
						l.RemoveInFlight(claim.UID, "pod")
					}
					usage := l.Pool(pool.ID)
					usage.Occupied(pool)
					usage.Held(pool)
					usage.Shared(pool)
					usage.Exhausted(pool)
				}
			})
		}
	}
}
