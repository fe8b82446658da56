package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// TestEventsInAnyOrder: events of slices, claims, rules and nodes arrive in any order, mixed with relists and
// with our own writes. At every step inventory, ledger and solver must give the answer of upstream's
// allocator to the same state, built from scratch.
func TestEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	const steps = 40
	var counts tally
	celCache := newCache()
	sequences := scenarioCount(6_000) / steps
	for seed := range int64(sequences) {
		w := newEventWorld(t, 20_000_000_000+seed, celCache)
		for step := range steps {
			w.step()
			node := w.nodes[w.g.Intn(len(w.nodes))]
			claims := []*resourceapi.ResourceClaim{w.g.claim(0)}
			if w.g.oneIn(3) {
				claims = append(claims, w.g.claim(1))
			}
			diff, result := w.compare(t.Context(), node, claims)
			require.Empty(t, diff, "sequence %d, step %d\n%s", seed, step, w.afresh(node, claims))
			counts.add(result)
		}
	}
	t.Logf("%d sequences of %d steps: %v", sequences, steps, counts.counts)
	total := sequences * steps
	for _, result := range []outcome{allocated, impossible, failed} {
		require.Greater(t, counts.counts[result], total/30, "too few questions are %s", result)
	}
	require.LessOrEqual(t, counts.counts[gaveUp]+counts.counts[skipped], 1+total/1000, "too many questions have no answer")
}

// compare is scenario.compare for a question to the state that the events produced.
func (w *eventWorld) compare(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) (string, outcome) {
	got, gotErr := w.solve(node, claims...)
	if gotErr == nil && got.GaveUp {
		return "", gaveUp
	}
	limited, cancel := context.WithTimeoutCause(ctx, upstreamPatience, errTooSlow)
	defer cancel()
	want, wantErr := w.afresh(node, claims).forUpstream().run(limited, structured.NewAllocator, w.celCache)
	gotClass := errorClass(gotErr)
	var results []resourceapi.AllocationResult
	if gotErr == nil {
		if results = got.Results; got.InvalidPools {
			gotClass = "only this node"
		}
	}
	switch {
	case errors.Is(wantErr, errTooSlow):
		return "", skipped
	case errorClass(wantErr) != gotClass:
		return fmt.Sprintf("upstream's error is %v, ours is %v (%s)", wantErr, gotErr, gotClass), failed
	case diffOf(want, results) != "":
		fresh, freshErr := w.afresh(node, claims).run(ctx, allocator.New, w.celCache)
		return fmt.Sprintf("allocation differs (-upstream +ours):\n%s\nUpstream says %v; ours, made afresh, %v, %v", diffOf(want, results), want, fresh, freshErr), allocated
	case gotClass != "none":
		return "", failed
	}
	return "", outcomeOf(results, nil)
}

// afresh returns a question together with the state of all objects that inventory and ledger were told about.
func (w *eventWorld) afresh(node *v1.Node, claims []*resourceapi.ResourceClaim) scenario {
	fresh := &world{slices: w.slices.told, rules: w.rules.told, held: make(map[string]*resourceapi.AllocationResult)}
	for uid, plan := range w.inFlight {
		fresh.held[string(uid)] = plan
	}
	for _, claim := range w.seen {
		if claim.Status.Allocation != nil {
			fresh.held[string(claim.UID)] = bothOf(claim.Status.Allocation, w.inFlight[claim.UID])
		}
	}
	s := scenario{
		features: w.g.s.features, state: fresh.allocatedState(nil), classes: w.g.s.classes,
		slices: fresh.taintedSlices(), node: node, claims: claims,
	}
	slices.SortFunc(s.slices, func(a, b *resourceapi.ResourceSlice) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
	return s.keepingShared()
}

// bothOf returns a claim's allocation with the devices that are in flight for it besides.
func bothOf(stored, inFlight *resourceapi.AllocationResult) *resourceapi.AllocationResult {
	if inFlight == nil {
		return stored
	}
	all := stored.DeepCopy()
	for _, result := range inFlight.Devices.Results {
		if !slices.ContainsFunc(stored.Devices.Results, func(other resourceapi.DeviceRequestAllocationResult) bool {
			return other.Driver == result.Driver && other.Pool == result.Pool && other.Device == result.Device && ptr.Equal(other.ShareID, result.ShareID)
		}) {
			all.Devices.Results = append(all.Devices.Results, result)
		}
	}
	return all
}

// keepingShared makes upstream keep devices from exclusive allocation that are not offered for sharing any
// more while claims still have shares: see Solver.KeepShared.
func (s scenario) keepingShared() scenario {
	shared := maps.Clone(s.state.AllocatedSharedDeviceIDs)
	for _, d := range devicesIn(s.slices) {
		for id := range shared {
			if id.GetDeviceID() == d.id() && !ptr.Deref(d.AllowMultipleAllocations, false) {
				s.state.AllocatedDevices.Insert(d.id())
			}
		}
	}
	return s
}
