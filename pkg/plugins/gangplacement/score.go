package gangplacement

import (
	"cmp"
	"context"
	"errors"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// A rating compares placements field by field; less is better.
type rating struct {
	// last is 1 for placements that exist only because no domain is required.
	last int
	// missing is the number of pods without a node.
	missing int
	// domains is the number of domains that the group would use, including those of its running pods.
	domains int
	// free is the number of free devices of the group's kind before the group is placed. The group takes the same
	// number in every placement. Placements with fewer free devices come first, so that larger gaps stay whole.
	free int
}

// most is the largest packed value of a field. There are fewer nodes than that.
const most = 1<<17 - 1

// pack returns a score that is higher for better ratings.
func (r rating) pack() int64 {
	packed := int64(0)
	for _, field := range []struct{ value, limit int }{{r.last, 1}, {r.missing, most}, {r.domains, most}, {r.free, 1<<27 - 1}} {
		packed = packed*int64(field.limit+1) + int64(min(field.value, field.limit))
	}
	return -packed
}

// ScorePlacement implements fwk.PlacementScorePlugin. Its scores are valid only for comparisons.
func (pl *Plugin) ScorePlacement(ctx context.Context, state fwk.PlacementCycleState, group fwk.PodGroupInfo, assigned *fwk.PodGroupAssignments) (int64, *fwk.Status) {
	a, err := attemptIn(kube.PodGroupCycleStateOf(state))
	if err != nil {
		return 0, kube.Failed(err)
	}
	c := a.choices[assigned.Placement]
	if c == nil {
		return 0, kube.Failed(errors.New("plugin " + Name + " scores placements that it has not made; enable it at placementGenerate as well (instead of other plugins)"))
	}
	r := rating{missing: max(0, len(group.GetUnscheduledPods())-len(assigned.ProposedAssignments)), domains: a.used(c, assigned)}
	if c.last {
		r.last = 1
	}
	if a.takesDevices {
		r.free = pl.free(ctx, a.wish.Key, c.domains, assigned.Nodes, a.kind)
	}
	return r.pack(), nil
}

// PlacementScoreExtensions implements fwk.PlacementScorePlugin.
func (pl *Plugin) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return pl }

// NormalizePlacementScore implements fwk.PlacementScoreExtensions: the best placement gets the highest score, and each
// worse one a point less. Equal placements are ordered by name, so that the result is deterministic; for groups without
// devices, other plugins decide between them.
func (pl *Plugin) NormalizePlacementScore(_ context.Context, _ fwk.PodGroupCycleState, group fwk.PodGroupInfo, scores []fwk.PlacementScore) *fwk.Status {
	byName := takesDevices(group.GetUnscheduledPods())
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	compare := func(a, b int) int {
		result := cmp.Compare(scores[b].Score, scores[a].Score)
		if byName {
			result = cmp.Or(result, cmp.Compare(scores[a].Placement.Name, scores[b].Placement.Name))
		}
		return result
	}
	slices.SortFunc(order, compare)
	ranks, rank := make([]int64, len(scores)), int64(0)
	for i, place := range order {
		if i > 0 && compare(order[i-1], place) != 0 {
			rank++
		}
		ranks[place] = max(fwk.MinScore, fwk.MaxScore-rank)
	}
	for i := range scores {
		scores[i].Score = ranks[i]
	}
	return nil
}

// used returns the number of domains that a group uses in a placement, including that of its running pods. A node in no
// domain counts as a domain.
func (a *attempt) used(c *choice, assigned *fwk.PodGroupAssignments) int {
	var names []string
	if len(a.running.names) > 0 {
		names = append(names, a.running.names[0])
	}
	if len(c.domains) == 1 {
		if !slices.Contains(a.running.names, c.domains[0]) {
			return len(names) + 1
		}
		return 1
	}
	if a.byNode == nil {
		return 0 // No wish.
	}
	alone := make(map[string]bool)
	for _, assignment := range assigned.ProposedAssignments {
		domains := a.byNode[assignment.GetNodeName()]
		switch {
		case len(domains) == 0:
			alone[assignment.GetNodeName()] = true
		case !slices.ContainsFunc(domains, func(name string) bool { return slices.Contains(names, name) }):
			names = append(names, domains[0])
		}
	}
	return len(names) + len(alone)
}

// attemptIn returns the attempt that GeneratePlacements has stored.
func attemptIn(state fwk.PodGroupCycleState) (*attempt, error) {
	if state != nil {
		if a, _ := kube.Stored[*attempt](state, stateKey); a != nil {
			return a, nil
		}
	}
	return nil, errors.New("plugin " + Name + " scores placements that it has not made; enable it at placementGenerate as well (instead of other plugins)")
}
