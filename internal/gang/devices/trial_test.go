package devices

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
)

// TestPlacedIfPossible: in small random clusters, with devices of nodes and devices that all nodes reach, claims that
// pods share and nodes with little room, a gang is placed if and only if an exhaustive search finds a way; in less than
// one case of a hundred the search gives up. No device is used twice.
func TestPlacedIfPossible(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	const worlds = 1500
	fit, gaveUp := 0, 0
	for i := range worlds {
		w := randomWorld(r)
		trial, problem := w.objects(t)
		want := w.fits(0, w.need, nil)
		result := search.Search(t.Context(), problem, trial)
		if result.GaveUp {
			gaveUp++
			continue
		}
		require.Equal(t, want, result.Fits(), "world %d: %+v", i, *w)
		if !result.Fits() {
			require.Empty(t, trial.on, "world %d: nothing is left", i)
			require.Empty(t, trial.units, "world %d", i)
			continue
		}
		fit++
		checkPlan(t, trial, w)
	}
	require.Greater(t, fit, worlds/4)
	require.Less(t, fit, worlds*9/10)
	require.Less(t, gaveUp, worlds/100, "gave up")
	t.Logf("%d of %d fit, %d gave up", fit, worlds, gaveUp)
}

// checkPlan checks that a plan can be carried out.
func checkPlan(t *testing.T, trial *Trial, w *world) {
	plan, err := trial.Plan()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(plan.Assignments), w.need)
	held, pods := make(map[string]string), make(map[string]int)
	for _, assignment := range plan.Assignments {
		pods[assignment.Node]++
		for _, claim := range assignment.Claims {
			allocation := plan.Allocations[claim.UID]
			require.NotNil(t, allocation, "claim %s", claim.Name)
			require.Len(t, allocation.Devices.Results, int(claim.Spec.Devices.Requests[0].Exactly.Count))
			for _, device := range allocation.Devices.Results {
				require.Contains(t, []string{assignment.Node, "shared"}, device.Pool, "in reach of the pod's node")
				key := device.Pool + "/" + device.Device
				require.Contains(t, []string{"", claim.Name}, held[key], "device %s is held twice", key)
				held[key] = claim.Name
			}
		}
	}
	for i, room := range w.room {
		require.LessOrEqual(t, pods[trial.Nodes[i].Name], room)
	}
}
