package whatif_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Questions that are asked at the same time have the answers that each has alone.
func TestConcurrent(t *testing.T) {
	o := cluster(40, 4)
	for i := range 30 {
		holding(&o, fmt.Sprintf("holder-%d", i), o.Nodes[i].Name, "gpu-0", "gpu-2")
	}
	questions := func(i int) []*v1.Pod {
		var pods []*v1.Pod
		for n := range 1 + i%7 {
			pods = append(pods, user(fmt.Sprintf("p%d", n), []string{"one", "two"}[(i+n)%2]))
		}
		return pods
	}
	want := make([][]string, 50)
	for i := range want {
		want[i] = nodesOf(fit(t, whatif.New(o, whatif.Options{Seed: 7}), questions(i)...))
	}
	s := whatif.New(o, whatif.Options{Seed: 7})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range want {
				answer, err := s.Fit(t.Context(), questions(i)...)
				if assert.NoError(t, err) {
					assert.Equal(t, want[i], nodesOf(answer))
				}
			}
		})
	}
	all.Wait()
}

// A seed decides which of several nodes is taken, and always the same.
func TestSeed(t *testing.T) {
	o := cluster(20, 1)
	chosen := make(map[string]bool)
	for seed := range uint64(20) {
		first := nodesOf(fit(t, whatif.New(o, whatif.Options{Seed: seed}), user("a", "one")))
		require.Equal(t, first, nodesOf(fit(t, whatif.New(o, whatif.Options{Seed: seed}), user("a", "one"))))
		chosen[first[0]] = true
	}
	assert.Greater(t, len(chosen), 5)
	assert.True(t, chosen["node-0000"], "seed 0 is by name")
}
