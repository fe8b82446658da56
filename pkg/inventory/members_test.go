package inventory

import (
	"fmt"
	"maps"
	"math/bits"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func member(name string, generation, wanted int64, node string) *Slice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	slice.Spec.Driver, slice.Spec.Pool = "d", resourceapi.ResourcePool{Name: "p", Generation: generation, ResourceSliceCount: wanted}
	if node != "" {
		slice.Spec.NodeName = &node
	} else {
		slice.Spec.AllNodes = ptr.To(true)
	}
	return NewSlice(slice, new(Content))
}

// TestMembers compares the tree with a map, also that of earlier versions.
func TestMembers(t *testing.T) {
	random := rand.New(rand.NewSource(4))
	for range 100 {
		var tree *members
		want := make(map[string]*Slice)
		versions := make(map[*members][]*Slice)
		for range 60 {
			name := fmt.Sprint("s", random.Intn(20))
			if random.Intn(3) == 0 {
				tree = tree.without(name)
				delete(want, name)
			} else {
				node := []string{"", "n"}[random.Intn(2)]
				slice := member(name, int64(random.Intn(3)), int64(random.Intn(3)), node)
				tree = tree.with(slice)
				want[name] = slice
			}
			versions[tree] = slices.SortedFunc(maps.Values(want), compareNames)
		}
		for tree, want := range versions {
			require.True(t, slices.Equal(want, tree.appendTo(nil)))
			requireTally(t, want, tree.tally())
			if tree != nil {
				first := ofGeneration(want, newest(want))
				pool := newPool(PoolID{"d", "p"}, tree, scopedRules{}, Options{})
				require.Equal(t, int64(len(first)) == first[0].Spec.Pool.ResourceSliceCount, pool.IsPublished())
			}
		}
	}
}

func requireTally(t *testing.T, want []*Slice, got tally) {
	require.Equal(t, len(want), got.count)
	local := 0
	for _, slice := range want {
		if slice.localTo() != "" {
			local++
		}
	}
	require.Equal(t, local, got.local)
	if len(want) > 0 {
		targeting := ofGeneration(want, newest(want))
		require.Equal(t, newest(want), got.generation)
		require.Equal(t, len(targeting), got.targeting)
		require.Equal(t, targeting[0].Spec.Pool.ResourceSliceCount, got.wanted)
	}
}

// TestMembersShare: a version has all but a few nodes of the tree in common with the one
// before, also if names come in order.
func TestMembersShare(t *testing.T) {
	const n = 4096
	var tree *members
	for i := range n {
		tree = tree.with(member(fmt.Sprintf("s%05d", i), 1, n, ""))
	}
	before := make(map[*members]bool)
	each(tree, func(m *members) { before[m] = true })
	for name, next := range map[string]*members{
		"replaced": tree.with(member("s02000", 2, n, "")),
		"added":    tree.with(member("s02000-new", 1, n, "")),
		"removed":  tree.without("s02000"),
	} {
		fresh := 0
		each(next, func(m *members) {
			if !before[m] {
				fresh++
			}
		})
		require.Less(t, fresh, 6*bits.Len(n), name)
	}
}

func each(m *members, visit func(*members)) {
	if m != nil {
		visit(m)
		each(m.left, visit)
		each(m.right, visit)
	}
}
