package bitset

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// model is the set as a sorted slice: slow and obviously right.
func model(s map[int]bool, n int) []int {
	var members []int
	for i := range n {
		if s[i] {
			members = append(members, i)
		}
	}
	return members
}

func randomPair(rng *rand.Rand, n int) (Set, map[int]bool) {
	s, m := New(n), map[int]bool{}
	for range rng.Intn(n + 1) {
		i := rng.Intn(n)
		if rng.Intn(3) == 0 {
			s.Remove(i)
			delete(m, i)
		} else {
			s.Add(i)
			m[i] = true
		}
	}
	return s, m
}

func TestAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 2000 {
		n := 1 + rng.Intn(200)
		a, am := randomPair(rng, n)
		b, bm := randomPair(rng, n)
		combine := func(keep func(inA, inB bool) bool) []int {
			m := map[int]bool{}
			for i := range n {
				m[i] = keep(am[i], bm[i])
			}
			return model(m, n)
		}
		apply := func(op func(Set, Set)) []int {
			c := a.Clone()
			op(c, b)
			return slices.Collect(c.All())
		}
		require.Equal(t, model(am, n), slices.Collect(a.All()))
		require.Equal(t, len(model(am, n)), a.Len())
		require.Equal(t, len(model(am, n)) == 0, a.Empty())
		require.Equal(t, combine(func(x, y bool) bool { return x && y }), apply(Set.And))
		require.Equal(t, combine(func(x, y bool) bool { return x && !y }), apply(Set.AndNot))
		require.Equal(t, combine(func(x, y bool) bool { return x || y }), apply(Set.Or))
		without := combine(func(x, y bool) bool { return x && !y })
		for i := range n {
			require.Equal(t, am[i], a.Has(i))
			require.Equal(t, am[i], Has(a, i))
			require.False(t, Has(nil, i))
			first, _ := slices.BinarySearch(without, i)
			require.Equal(t, len(without)-first, a.LenWithout(b, i))
		}
	}
}

func TestNext(t *testing.T) {
	s := New(130)
	for _, i := range []int{3, 64, 129} {
		s.Add(i)
	}
	for from, want := range map[int]int{0: 3, 3: 3, 4: 64, 64: 64, 65: 129, 129: 129, 130: -1, 500: -1} {
		require.Equal(t, want, s.Next(from), "from %d", from)
	}
}

func TestFull(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 128, 129} {
		require.Equal(t, n, Full(n).Len())
	}
}

func TestAllStopsEarly(t *testing.T) {
	for i := range Full(10).All() {
		if i == 3 {
			return
		}
		require.Less(t, i, 3)
	}
	t.Fatal("iteration ended before member 3")
}
