package domain

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

func rooms(pods ...int) (list []Room) {
	for i, n := range pods {
		list = append(list, Room{Name: fmt.Sprintf("d%02d", i), Pods: n})
	}
	return list
}

func TestChoose(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rooms []Room
		pods  int
		want  []int
	}{
		"nothing":                 {pods: 3},
		"no room":                 {rooms: rooms(0, -1), pods: 3},
		"the tightest":            {rooms: rooms(8, 4, 5, 3), pods: 4, want: []int{1}},
		"ties by name":            {rooms: []Room{{"b", 4}, {"a", 4}}, pods: 4, want: []int{1}},
		"none suffices":           {rooms: rooms(3, 5, 2), pods: 7, want: []int{1, 2}},
		"largest until it fits":   {rooms: rooms(4, 8, 8, 2, 6), pods: 19, want: []int{1, 2, 0}},
		"exactly all":             {rooms: rooms(1, 2, 3), pods: 6, want: []int{2, 1, 0}},
		"all do not suffice":      {rooms: rooms(2, 0, 3, 3), pods: 100, want: []int{2, 3, 0}},
		"all pods run already":    {rooms: rooms(2, 1), pods: 0},
		"larger holes are spared": {rooms: rooms(10, 6, 6), pods: 12, want: []int{0, 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, Choose(test.rooms, test.pods))
		})
	}
}

// TestChooseIsBest tries all subsets of domains.
func TestChooseIsBest(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(7))
	for range 20000 {
		list := make([]Room, random.Intn(7))
		for i := range list {
			list[i] = Room{Name: string(rune('a' + random.Intn(3))), Pods: random.Intn(9)}
		}
		pods := 1 + random.Intn(24)
		asked := fmt.Sprint(list, " ", pods)
		fewest, total := len(list)+1, 0
		for subset := range 1 << len(list) {
			count, sum := 0, 0
			for i := range list {
				if subset&(1<<i) != 0 {
					count, sum = count+1, sum+list[i].Pods
				}
			}
			total = max(total, sum)
			if sum >= pods {
				fewest = min(fewest, count)
			}
		}
		chosen := Choose(list, pods)
		checkFilled(t, list, pods, chosen, asked)
		if total >= pods {
			require.Len(t, chosen, fewest, asked)
		}
	}
}

// checkFilled checks that no other next domain would have been better.
func checkFilled(t *testing.T, list []Room, pods int, filled []int, asked string) {
	t.Helper()
	used := make(map[int]bool)
	left := pods
	for _, i := range filled {
		require.Positive(t, left, asked)
		require.False(t, used[i], asked)
		require.Positive(t, list[i].Pods, asked)
		for j := range list {
			switch a, b := list[i], list[j]; {
			case used[j] || j == i:
			case a.Pods >= left:
				require.True(t, b.Pods < left || b.Pods > a.Pods || b.Pods == a.Pods && b.Name >= a.Name, asked)
			default:
				require.True(t, b.Pods < a.Pods || b.Pods == a.Pods && b.Name >= a.Name, asked)
			}
		}
		used[i] = true
		left -= list[i].Pods
	}
	if left > 0 {
		for i := range list {
			require.True(t, used[i] || list[i].Pods <= 0, asked)
		}
	}
}
