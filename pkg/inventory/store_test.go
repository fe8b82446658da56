package inventory_test

import (
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// randomSlice makes one of a few slices whose versions move between pools, nodes
// and generations.
func randomSlice(rng *rand.Rand, name string) *resourceapi.ResourceSlice {
	slice := b.Slice(name).InPool(fmt.Sprintf("pool-%d", rng.Intn(3)), int64(1+rng.Intn(2)), int64(1+rng.Intn(2))).
		Devices(b.Device(fmt.Sprintf("device-%d", rng.Intn(3))))
	switch rng.Intn(3) {
	case 0:
		slice.OnNode(fmt.Sprintf("node-%d", rng.Intn(2)))
	case 1:
		slice.OnAllNodes()
	default:
		slice.OnLabeled("zone", "1")
	}
	return slice.Obj()
}

// TestEventsGiveTheSameAsStartingAnew applies random changes one by one and
// compares the store with one that is made from the result.
func TestEventsGiveTheSameAsStartingAnew(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	nodes := []*struct{ name, zone string }{{"node-0", "1"}, {"node-1", "2"}}
	for range 200 {
		store := inventory.NewStore(all)
		current := map[string]*resourceapi.ResourceSlice{}
		for range 30 {
			name := fmt.Sprintf("slice-%d", rng.Intn(5))
			if rng.Intn(4) == 0 {
				delete(current, name)
			} else {
				current[name] = randomSlice(rng, name)
			}
			store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return current[name] })

			var published []*resourceapi.ResourceSlice
			for _, slice := range current {
				published = append(published, slice)
			}
			fresh := inventory.FromSlices(published, all)
			for _, n := range nodes {
				node := b.Node(n.name, "zone", n.zone)
				require.Equal(t, summarize(fresh.OnNode(node)), summarize(store.OnNode(node)))
			}
		}
	}
}

func TestRefreshReadsUnderTheLock(t *testing.T) {
	// Many goroutines refresh the same slice from a source that only moves forward.
	// However they interleave, the last state must win.
	var source sync.Mutex
	generation := int64(0)
	store := inventory.NewStore(all)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				source.Lock()
				generation++
				source.Unlock()
				store.RefreshSlice("s", func() *resourceapi.ResourceSlice {
					source.Lock()
					defer source.Unlock()
					return b.Slice("s").InPool("p", generation, 1).OnNode("a").Devices(b.Device("d")).Obj()
				})
			}
		})
	}
	wg.Wait()
	pools := store.OnNode(b.Node("a"))
	require.Equal(t, generation, pools[0].Devices[0].Slice.Spec.Pool.Generation)
}

func TestReadersAlwaysSeeThePool(t *testing.T) {
	store := inventory.NewStore(all)
	version := func(n int64) *resourceapi.ResourceSlice {
		return b.Slice("s").InPool("p", n, 1).OnNode("a").Devices(b.Device("d")).Obj()
	}
	store.RefreshSlice("s", func() *resourceapi.ResourceSlice { return version(1) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range int64(2000) {
			store.RefreshSlice("s", func() *resourceapi.ResourceSlice { return version(n + 2) })
		}
	}()
	node := b.Node("a")
	for reading := true; reading; {
		require.Len(t, store.OnNode(node), 1, "a pool that is replaced must not vanish in between")
		select {
		case <-done:
			reading = false
		default:
		}
	}
}

func TestUnknownPool(t *testing.T) {
	require.Nil(t, inventory.NewStore(all).Pool(inventory.PoolID{Driver: "d", Name: "n"}))
}
