package inventory

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var poolP = PoolID{"d", "p"}

func refresh(s *Store, slice *Slice) {
	s.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice.ResourceSlice })
}

// TestNobodyLooks: events never build a pool, and reading the pool builds one version, once.
func TestNobodyLooks(t *testing.T) {
	var versions []*Pool
	store := NewStore(Options{})
	store.Published = func(before, after *Pool) {
		versions = append(versions, after)
		after.IsPublished()
		after.Later()
	}
	const n = 50
	for i := range n {
		refresh(store, member(fmt.Sprint("s", i), 1, n, ""))
	}
	for i := range n {
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", i)}}
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Pool: &poolP.Name, Device: ptr.To(fmt.Sprint("device-", i))}
		store.RefreshTaintRule(rule.Name, func() *resourceapi.DeviceTaintRule { return rule })
	}
	view := store.Pool(poolP).Everywhere()
	require.Same(t, view, store.OnNode(&v1.Node{})[0])
	require.Len(t, versions, 2*n)
	for i, version := range versions {
		require.Equal(t, i == 2*n-1, version.slices != nil, "version %d", i)
	}
	require.Len(t, versions[2*n-1].rules, n)
	require.Len(t, versions[10].built().slices, 11, "it can still be built")
}

// TestAllSeeTheSame: concurrent readers of a version that is not built yet get the same result.
func TestAllSeeTheSame(t *testing.T) {
	store := NewStore(Options{})
	for round := range 100 {
		refresh(store, member("a", int64(round), 2, "n"))
		refresh(store, member("b", int64(round), 2, ""))
		views := make([][2]*NodePool, 4)
		var wg sync.WaitGroup
		for i := range views {
			wg.Go(func() {
				pool := store.Pool(poolP)
				views[i] = [2]*NodePool{pool.Everywhere(), pool.OnNode(&v1.Node{})}
			})
		}
		wg.Wait()
		for _, other := range views {
			require.Same(t, views[0][0], other[0])
			require.Same(t, views[0][1], other[1])
			require.Equal(t, Complete, other[0].State)
		}
	}
}

// TestLater: a version can be read after newer versions exist, whether it was read before or not.
func TestLater(t *testing.T) {
	for _, asked := range []bool{false, true} {
		store := NewStore(Options{})
		refresh(store, member("a", 1, 2, "n"))
		refresh(store, member("b", 1, 2, ""))
		pool := store.Pool(poolP)
		if asked {
			pool.Everywhere()
		}
		later := pool.Later()
		store.RefreshSlice("a", func() *resourceapi.ResourceSlice { return nil })
		require.Equal(t, Incomplete, store.Pool(poolP).Everywhere().State)
		require.Equal(t, Complete, later().State)
		require.Same(t, later(), later())
		require.Equal(t, asked, later() == pool.Everywhere())
	}
}

// TestChangesOfAPool: an event is one entry in the log, whatever the pool has, and a second
// one for a node that it does not have a slice for any more.
func TestChangesOfAPool(t *testing.T) {
	store := NewStore(Options{})
	const n = 20
	for i := range n {
		refresh(store, member(fmt.Sprint("s", i), 1, n, fmt.Sprint("n", i)))
	}
	_, end, _ := store.Changed.Since(0)
	happened := func() (changes []Change) {
		changes, end, _ = store.Changed.Since(end)
		return changes
	}
	refresh(store, member("s3", 2, n, "n3"))
	require.Equal(t, []Change{{Pool: poolP}}, happened())
	refresh(store, member("s3", 2, n, "elsewhere"))
	require.Equal(t, []Change{{Pool: poolP}, {Node: "n3"}}, happened())
	require.Contains(t, store.NodesOf(poolP), "elsewhere")
	require.NotContains(t, store.NodesOf(poolP), "n3")
	require.Len(t, store.NodesOf(poolP), n)
	store.RefreshSlice("s3", func() *resourceapi.ResourceSlice { return nil })
	require.Equal(t, []Change{{Pool: poolP}, {Node: "elsewhere"}}, happened())
	for i := range n {
		store.RefreshSlice(fmt.Sprint("s", i), func() *resourceapi.ResourceSlice { return nil })
	}
	changes := happened()
	require.Equal(t, Change{Node: "n19"}, changes[len(changes)-1])
	require.Empty(t, store.NodesOf(poolP))
	refresh(store, member("shared", 1, 1, ""))
	require.Empty(t, happened(), "it is for no node alone")
}

// TestToldWhileOthersLook: the receiver of a version may use it while another goroutine builds it.
// The race detector judges.
func TestToldWhileOthersLook(t *testing.T) {
	store := NewStore(Options{})
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if pool := store.Pool(poolP); pool != nil {
					pool.OnNode(&v1.Node{})
				}
			}
		}
	})
	store.Published = func(before, after *Pool) {
		require.Equal(t, poolP, after.Key().Value())
		if before != nil {
			require.NotNil(t, before.Later())
		}
	}
	for round := range 500 {
		refresh(store, member("a", int64(round), 1, ""))
	}
	close(done)
	looking.Wait()
}

// TestSliceThatMovesToAnotherPool: a slice that was deleted and made again may be in another
// pool. Its node is named after both pools have changed.
func TestSliceThatMovesToAnotherPool(t *testing.T) {
	store := NewStore(Options{})
	refresh(store, member("s", 1, 1, "n"))
	_, start, _ := store.Changed.Since(0)
	moved := member("s", 1, 1, "n")
	moved.Spec.Pool.Name = "other"
	refresh(store, moved)
	changes, _, _ := store.Changed.Since(start)
	require.Equal(t, Change{Node: "n"}, changes[len(changes)-1])
	require.Nil(t, store.Pool(poolP))
}
