package devices_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
)

// TestPlacedIfAndOnlyIfThereIsAWay compares the search with an exhaustive search, for gangs that come one after the
// other into small clusters: a gang is placed if and only if enough of its pods can have nodes and devices at the same
// time. In few cases the search may give up. The placed pods are checked against the cluster's devices.
func TestPlacedIfAndOnlyIfThereIsAWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		network, share bool
		// mostGaveUp is the largest accepted number of gangs in a thousand for which the search gives up.
		mostGaveUp int
	}{
		"nodes apart":                     {},
		"network":                         {network: true, mostGaveUp: 6},
		"shared claims":                   {share: true},
		"shared claims, with the network": {network: true, share: true, mostGaveUp: 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			gangs, placed, gaveUp, missed := 0, 0, 0, 0
			for i := range 1000 {
				w := randomWorld(r, tc.network)
				c := w.cluster()
				for j := range 1 + r.IntN(3) {
					classes := randomGang(r, tc.share)
					pods := 0
					for _, a := range classes {
						pods += a.pods
					}
					need := 1 + r.IntN(pods)
					if r.IntN(2) == 0 {
						need = pods
					}
					gangs++
					where := fmt.Sprintf("world %d, gang %d: %d of %+v in %+v", i, j, need, classes, *w)
					list := groups(fmt.Sprintf("g%d", j), classes)
					most := w.mostByTrying(classes)
					tried, result := c.search(t, need, list...)
					if result.GaveUp {
						gaveUp++
						if most >= need {
							missed++
						}
						continue
					}
					require.Equal(t, most >= need, result.Fits(), where)
					fit := 0
					for _, pods := range result.Most {
						fit += pods
					}
					require.LessOrEqual(t, fit, most, where)
					if !result.Fits() {
						continue
					}
					placed++
					require.GreaterOrEqual(t, len(result.Assignments), need, where)
					w.holding(result.Assignments, classes, c.planned(t, tried))
					w.check(t, where)
					requireMatching(t, tried, classes, where)
					c.keep(t, tried)
					copy(c.cpu, w.cpu)
				}
			}
			t.Logf("%d gangs, %d placed, %d gave up (%d of which fit)", gangs, placed, gaveUp, missed)
			require.LessOrEqual(t, gaveUp, gangs*tc.mostGaveUp/1000)
			require.Greater(t, placed, gangs/4)
			require.Less(t, placed, gangs*9/10)
		})
	}
}

// TestWhatIsTakenAwayLeavesNothing: after pods were added and removed, the state is the same as if the removed pods had
// never been added: the same pods fit, with the same devices.
func TestWhatIsTakenAwayLeavesNothing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	left, changed := 0, 0
	for i := range 500 {
		w := randomWorld(r, true)
		c, classes := w.cluster(), randomGang(r, true)
		list := groups("g", classes)
		tried, again := c.trial(t, list...), c.trial(t, list...)
		var added [][2]int
		count := make([]int, len(classes))
		for range 20 {
			class, node := r.IntN(len(classes)), r.IntN(len(c.nodes))
			switch {
			case len(added) > 0 && r.IntN(3) == 0:
				tried.Remove()
				count[added[len(added)-1][0]]--
				added = added[:len(added)-1]
				changed++
			case count[class] < classes[class].pods && tried.Add(class, node) == search.Yes:
				count[class]++
				added = append(added, [2]int{class, node})
			}
		}
		for _, pod := range added {
			require.Equal(t, search.Yes, again.Add(pod[0], pod[1]), "world %d", i)
		}
		want, err := again.Plan()
		require.NoError(t, err)
		got, err := tried.Plan()
		require.NoError(t, err)
		require.Equal(t, want, got, "world %d", i)
		left += len(added)
	}
	require.Greater(t, left, 500)
	require.Greater(t, changed, 500)
}

// check requires that no more is taken than there is.
func (w *world) check(t *testing.T, where string) {
	for node, left := range w.cpu {
		require.GreaterOrEqual(t, left, 0, "CPU of node %d, %s", node, where)
	}
	for i := range w.kinds {
		require.LessOrEqual(t, w.kinds[i].taken, w.kinds[i].all, where)
	}
}

// requireMatching requires that each claim gets the devices that it requests.
func requireMatching(t *testing.T, tried *devices.Trial, classes []asked, where string) {
	plan, err := tried.Plan()
	require.NoError(t, err)
	for _, assignment := range plan.Assignments {
		claims := classes[assignment.Class].own
		if shared := classes[assignment.Class].shared; shared != nil {
			claims = append(claims[:len(claims):len(claims)], shared)
		}
		require.Len(t, assignment.Claims, len(claims), where)
		for i, wants := range claims {
			results, total := plan.Allocations[assignment.Claims[i].UID].Devices.Results, 0
			for j, w := range wants {
				total += w.count
				require.True(t, slices.ContainsFunc(w.alternatives, func(model string) bool {
					return w.count == count(results, fmt.Sprintf("r%d", j), model)
				}), "%v for %v, %s", results, w, where)
			}
			require.Len(t, results, total, where)
		}
	}
}

// count returns the number of a model's devices that a request got.
func count(results []resourceapi.DeviceRequestAllocationResult, request, model string) (n int) {
	for i := range results {
		of, _, _ := strings.Cut(results[i].Request, "/")
		if of == request && (model == "any" || strings.HasPrefix(results[i].Device, model)) {
			n++
		}
	}
	return n
}
