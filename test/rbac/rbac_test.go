package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

func TestEachRightIsNeeded(t *testing.T) {
	e := startEnvironment(t)
	granted, err := readRights(t.Context(), e)
	require.NoError(t, err)
	e.prepare(t)
	require.NoError(t, eventually(t.Context(), e.schedules("warm-up")))

	reflected := reflectedResources(granted)
	probed := []string{readAuthentication}
	for _, resource := range reflected {
		probed = append(probed, "list "+resource, "watch "+resource)
	}
	for _, p := range probes {
		probed = append(probed, p.right)
	}
	require.ElementsMatch(t, granted.names(), probed, "each right in the manifests has a probe, and each probe a right")

	t.Run("list and watch", func(t *testing.T) {
		harness.Long(t, "reflectors wait longer each time")
		e.testReflectors(t, granted, reflected)
	})
	for _, p := range probes {
		t.Run(p.right, func(t *testing.T) {
			if p.late() {
				harness.Long(t, "what needs the right happens at intervals")
			}
			e.testProbe(t, granted, p)
		})
	}
}

// reflectedResources are those that the scheduler may watch.
func reflectedResources(granted *rights) []string {
	var resources []string
	for _, name := range granted.names() {
		if resource, found := strings.CutPrefix(name, "watch "); found {
			resources = append(resources, resource)
		}
	}
	return resources
}

// testReflectors has all reflectors start anew, first without the right to list, then
// without that to watch. In between they need not start anew again: a reflector that
// failed begins with a list, but waits longer each time.
func (e *environment) testReflectors(t *testing.T, granted *rights, resources []string) {
	anew := append(slices.Clone(resources), "configmaps")
	toList, toWatch := []string{readAuthentication}, []string{}
	for _, resource := range resources {
		toList, toWatch = append(toList, "list "+resource), append(toWatch, "watch "+resource)
	}
	running := map[string]int{}
	for _, resource := range anew {
		running[resource] = e.front.watching(resource)
		require.NotZero(t, running[resource], "nothing watches %s, so that the right to do so is not needed", resource)
	}
	require.NoError(t, granted.grantAllBut(t.Context(), toList...))
	for _, resource := range anew {
		e.front.startAnew(resource)
	}
	e.awaitRefusals(t, toList)
	require.NoError(t, granted.grantAllBut(t.Context(), toWatch...))
	e.awaitRefusals(t, toWatch)
	require.NoError(t, granted.grantAllBut(t.Context()))
	require.ElementsMatch(t, slices.Concat(toList, toWatch), e.front.takeRefusals(), "what was refused")

	for _, resource := range anew {
		require.NoError(t, eventually(t.Context(), func(context.Context) error {
			if n := e.front.watching(resource); n < running[resource] {
				return fmt.Errorf("%d of %d watches of %s are back", n, running[resource], resource)
			}
			return nil
		}))
	}
	require.Empty(t, e.front.takeRefusals(), "with all rights")
}

// awaitRefusals waits until the API server has refused all the rights.
func (e *environment) awaitRefusals(t *testing.T, missing []string) {
	t.Helper()
	for _, name := range missing {
		require.NoError(t, eventually(t.Context(), func(context.Context) error {
			if !e.front.hasRefused(name) {
				return fmt.Errorf("the scheduler did not need the right to %s", name)
			}
			return nil
		}))
	}
}

// testProbe gives the same occasion without and with a right. Without it, the API
// server has to refuse that right and nothing else.
func (e *environment) testProbe(t *testing.T, granted *rights, p probe) {
	name := strings.NewReplacer(" ", "-", "/", "-", ".", "-").Replace(p.right)
	require.Empty(t, e.front.takeRefusals(), "with all rights")
	require.NoError(t, granted.grantAllBut(t.Context(), p.right))
	done := p.occasion(t, e, name+"-without")
	require.NoError(t, eventually(t.Context(), func(ctx context.Context) error {
		// Some of what is asked here is what makes the scheduler ask.
		if err := done(ctx); !e.front.hasRefused(p.right) {
			return fmt.Errorf("the scheduler did not need the right to %s (is it done? %v)", p.right, err)
		}
		return nil
	}))
	require.Error(t, done(t.Context()), "it works without the right to %s", p.right)
	require.NoError(t, granted.grantAllBut(t.Context()))
	require.Equal(t, []string{p.right}, e.front.takeRefusals(), "what was refused")

	done = p.occasion(t, e, name+"-with")
	require.NoError(t, eventually(t.Context(), done))
	require.Empty(t, e.front.takeRefusals(), "with all rights")
}
