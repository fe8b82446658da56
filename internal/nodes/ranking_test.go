package nodes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// merits are the scores of nodes before the ranking.
func merits(nodes ...string) (scores fwk.NodeScoreList) {
	for _, name := range nodes {
		scores = append(scores, fwk.NodeScore{Name: name, Score: 1})
	}
	return scores
}

func names(nodes []nodes.Node) (result []string) {
	for _, node := range nodes {
		result = append(result, node.Name)
	}
	return result
}

// TestRanking: each node gets its own score, wherever it is in the list, and a node without a value
// comes last.
func TestRanking(t *testing.T) {
	t.Parallel()
	scores := merits("unknown", "dear", "cheap")
	ranking := nodes.Ranking{Values: map[string]allocator.Value{"dear": {Cost: 3}, "cheap": {Cost: 1}}}
	require.Equal(t, []string{"cheap", "dear", "unknown"}, names(ranking.Score(scores)))
	got := map[string]int64{}
	for _, score := range scores {
		got[score.Name] = score.Score
	}
	require.Equal(t, int64(fwk.MaxScore), got["cheap"])
	require.Greater(t, got["dear"], got["unknown"])
}

// TestRankingByReadiness: nodes where the pod would wait come after all others, whatever their
// cost, and nodes without a value after these. Only nodes where devices failed for the pod before
// come later.
func TestRankingByReadiness(t *testing.T) {
	t.Parallel()
	values := map[string]allocator.Value{
		"failed": {Failed: 1, NotReady: 1}, "late": {NotReady: 1}, "two late": {NotReady: 2}, "ready": {Apart: 3, Cost: 5},
	}
	scores := merits("failed", "unknown", "late", "two late", "ready")
	order := []string{"ready", "late", "two late", "unknown", "failed"}
	require.Equal(t, order, names(nodes.Ranking{Values: values, Scattered: true, Seed: "x"}.Score(scores)))
	got := map[string]int64{}
	for _, score := range scores {
		got[score.Name] = score.Score
	}
	for i := range order[1:] {
		require.Greater(t, got[order[i]], got[order[i+1]], order[i])
	}
}

// TestRankingScattered: only what costs nearly the same changes places, and with another seed to others.
func TestRankingScattered(t *testing.T) {
	t.Parallel()
	values := map[string]allocator.Value{"a": {Cost: 1}, "b": {Cost: 1.01}, "c": {Cost: 1.02}, "d": {Cost: 2}}
	firsts := map[string]bool{}
	for _, seed := range []string{"one", "two", "three", "four", "five", "six"} {
		order := names(nodes.Ranking{Values: values, Scattered: true, Seed: seed}.Score(merits("a", "b", "c", "d")))
		require.Equal(t, "d", order[3])
		firsts[order[0]] = true
		require.Equal(t, []string{"a", "b", "c", "d"}, names(nodes.Ranking{Values: values, Seed: seed}.Score(merits("a", "b", "c", "d"))))
	}
	require.Greater(t, len(firsts), 1)
}
