package allocationlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// step is one write: a state of a claim. Versions are 10, 20, 30 and so on.
type step = *resourceapi.ResourceClaim

// gone marks the deletion of a claim.
func gone(claim step) step {
	claim.Finalizers = []string{"gone"}
	return claim
}

func isGone(claim step) bool { return len(claim.Finalizers) == 1 && claim.Finalizers[0] == "gone" }

func ofDriver(driver string, claim step) step {
	for i := range claim.Status.Allocation.Devices.Results {
		claim.Status.Allocation.Devices.Results[i].Driver = driver
	}
	return claim
}

func inPool(pool string, claim step) step {
	for i := range claim.Status.Allocation.Devices.Results {
		claim.Status.Allocation.Devices.Results[i].Pool = pool
	}
	return claim
}

func withAdminAccess(claim step) step {
	for i := range claim.Status.Allocation.Devices.Results {
		claim.Status.Allocation.Devices.Results[i].AdminAccess = ptr.To(true)
	}
	return claim
}

func replaced(claim step) step {
	claim.UID += "-second"
	return claim
}

// What claims are told after a sequence of events.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		slices []*b.SliceBuilder
		writes []step
		want   map[string]string
	}{
		"the first one stays": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-0")},
			want:   map[string]string{"x": "stays", "y": "earlier x: held gpu-0"},
		},
		"one common device is enough": {
			writes: []step{ours("x", "gpu-0", "gpu-1"), ours("y", "gpu-2", "gpu-1")},
			want:   map[string]string{"x": "stays", "y": "earlier x: held gpu-1"},
		},
		"a pool that is published, without counters": {
			slices: []*b.SliceBuilder{b.NodeSlice("a", b.Devices("gpu-0", "gpu-1")...)},
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-1"), ours("z", "gpu-0")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "earlier x: held gpu-0"},
		},
		"the earliest of several is named": {
			writes: []step{ours("z", "gpu-1"), ours("y", "gpu-0"), ours("x", "gpu-0", "gpu-1")},
			want:   map[string]string{"x": "earlier z: held gpu-1", "y": "stays", "z": "stays"},
		},
		"other devices, pools and drivers are no conflict": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-1"), inPool("b", ours("z", "gpu-0")), ofDriver("nic.example.com", ours("v", "gpu-0"))},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays", "v": "stays"},
		},
		"access for administrators takes nothing": {
			writes: []step{withAdminAccess(ours("x", "gpu-0")), ours("y", "gpu-0"), withAdminAccess(ours("z", "gpu-0"))},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays"},
		},
		"a claim that is not allocated": {
			writes: []step{ours("x", "gpu-0"), free("y")},
			want:   map[string]string{"x": "stays", "y": "stays", "unknown": "stays"},
		},
		"it is the allocation that counts, not the last write": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-0"), ours("x", "gpu-0")},
			want:   map[string]string{"x": "stays", "y": "earlier x: held gpu-0"},
		},
		"deallocation frees the device": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-0"), free("x")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"whoever comes back comes last": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-0"), free("x"), ours("x", "gpu-0")},
			want:   map[string]string{"x": "earlier y: held gpu-0", "y": "stays"},
		},
		"another allocation at once is a new one": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-1"), ours("x", "gpu-1")},
			want:   map[string]string{"x": "earlier y: held gpu-1", "y": "stays"},
		},
		"deletion frees the device": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-0"), gone(ours("x", "gpu-0"))},
			want:   map[string]string{"y": "stays"},
		},
		"a new claim of the same name": {
			writes: []step{ours("x", "gpu-0"), gone(ours("x", "gpu-0")), ours("y", "gpu-0"), replaced(ours("x", "gpu-0"))},
			want:   map[string]string{"x": "stays", "y": "stays", "x-second": "earlier y: held gpu-0"},
		},
		"of two that hold a device, one goes": {
			writes: []step{ours("x", "gpu-0"), ours("y", "gpu-0"), ours("z", "gpu-0"), free("y")},
			want:   map[string]string{"x": "stays", "z": "earlier x: held gpu-0"},
		},
		"shares get along": {
			writes: []step{sharing("x", "nic-0", "s1", ""), sharing("y", "nic-0", "s2", "")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"a share of a held device": {
			writes: []step{ours("x", "nic-0"), sharing("y", "nic-0", "s1", "")},
			want:   map[string]string{"x": "stays", "y": "earlier x: held and shared nic-0"},
		},
		"holding a shared device": {
			writes: []step{sharing("x", "nic-0", "s1", ""), ours("y", "nic-0")},
			want:   map[string]string{"x": "stays", "y": "earlier x: held and shared nic-0"},
		},
		"another share of the same device is a new allocation": {
			writes: []step{sharing("x", "nic-0", "s1", ""), ours("y", "nic-0"), sharing("x", "nic-0", "s2", "")},
			want:   map[string]string{"x": "earlier y: held and shared nic-0", "y": "stays"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.slices...)
			for i, claim := range tc.writes {
				if isGone(claim) {
					w.remove(uint64(10*(i+1)), claim)
				} else {
					w.write(uint64(10*(i+1)), claim)
				}
			}
			w.requireVerdicts(tc.want)
			requireConsistent(t, &w.index)
		})
	}
}

// requireConsistent checks the invariant of the index.
func requireConsistent(t *testing.T, x *index) {
	t.Helper()
	rebuilt := newIndex()
	for _, a := range x.claims {
		rebuilt.add(a)
	}
	require.Len(t, x.pools, len(rebuilt.pools))
	for pool, devices := range rebuilt.pools {
		require.Len(t, x.pools[pool], len(devices))
		for device, holdings := range devices {
			require.ElementsMatch(t, holdings, x.pools[pool][device])
		}
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(10, ours("x", "gpu-0"))
	w.write(20, foreign("y", "gpu-0", "gpu-1"))
	w.write(30, ours("z", "gpu-1", "gpu-0"))

	require.Equal(t, []string{"later y: held gpu-0", "later z: held gpu-0"}, describeAll(w.Conflicts("uid-x")))
	require.Equal(t, []string{"earlier x: held gpu-0", "later z: held gpu-0", "later z: held gpu-1"}, describeAll(w.Conflicts("uid-y")))
	require.Equal(t, []string{"earlier x: held gpu-0", "earlier y: held gpu-0", "earlier y: held gpu-1"}, describeAll(w.Conflicts("uid-z")))
	require.Empty(t, w.Conflicts("uid-unknown"))

	conflict := w.Conflicts("uid-x")[0]
	require.Equal(t, Span{20, 20}, conflict.Other.Allocated)
	require.Equal(t, Span{10, 10}, conflict.Claim.Allocated)
	require.True(t, conflict.Other.Foreign)
	require.False(t, conflict.Claim.Foreign)
	require.False(t, conflict.Lost)
	require.True(t, w.Conflicts("uid-y")[0].Lost)
	require.Equal(t, "claim default/y was allocated device gpu-0 of pool gpu.example.com/a later (resourceVersion 20; that of claim default/x is 10)", conflict.String())
}

func TestRepeatedEventsAreIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(10, ours("x", "gpu-0"))
	w.write(20, free("x"))
	w.write(30, ours("y", "gpu-0"))
	w.write(10, ours("x", "gpu-0"))
	w.requireVerdicts(map[string]string{"x": "stays", "y": "stays"})
	require.EqualValues(t, 30, w.progress.upTo(), "progress does not go back")

	w.remove(40, ours("y", "gpu-0"))
	w.write(30, ours("y", "gpu-0"))
	w.write(50, ours("x", "gpu-0"))
	w.remove(40, ours("y", "gpu-0"))
	w.requireVerdicts(map[string]string{"x": "stays"})
	require.Len(t, w.index.claims, 1)
}

func TestOnConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(10, ours("x", "gpu-0"))
	require.Empty(t, w.reported)
	w.write(20, foreign("y", "gpu-0"))
	require.Equal(t, []string{"earlier x: held gpu-0"}, describeAll(w.reported))
	require.True(t, w.reported[0].Claim.Foreign)
	w.write(30, foreign("y", "gpu-0"))
	w.write(40, ours("x", "gpu-0"))
	require.Len(t, w.reported, 1, "a conflict is reported once")
	w.write(50, free("y"))
	w.write(60, foreign("y", "gpu-0"))
	require.Len(t, w.reported, 2, "and again if it comes again")

	w.relist(100, at(40, ours("x", "gpu-0")), at(60, foreign("y", "gpu-0")),
		at(70, ours("z", "gpu-1")), at(80, ours("v", "gpu-1")))
	require.Len(t, w.reported, 3, "new in the list")
	require.Equal(t, "unknown z: held gpu-1", describe(w.reported[2]))
}

func TestForeignWithin(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t)
	require.False(t, w.ForeignWithin(24*time.Hour))
	w.relist(20, at(10, foreign("old", "gpu-7")), at(11, ours("x", "gpu-0")))
	require.False(t, w.ForeignWithin(time.Minute), "it was written an hour ago")
	require.True(t, w.ForeignWithin(time.Hour))

	w.write(30, ours("y", "gpu-1"))
	w.write(40, foreign("old", "gpu-7"))
	require.False(t, w.ForeignWithin(time.Minute), "nothing was allocated by somebody else")

	w.write(50, foreign("z", "gpu-2"))
	w.clock.SetTime(start.Add(time.Minute))
	require.True(t, w.ForeignWithin(time.Minute))
	w.clock.SetTime(start.Add(time.Minute + time.Second))
	require.False(t, w.ForeignWithin(time.Minute))

	w.relist(60, at(55, foreign("v", "gpu-3")))
	require.True(t, w.ForeignWithin(time.Second), "it came after the last event")
}
