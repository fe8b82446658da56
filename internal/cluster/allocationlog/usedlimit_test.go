package allocationlog

import (
	"testing"

	"github.com/stretchr/testify/require"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// partitioned is a pool whose devices draw on one counter set with 40Gi of memory: "big"
// 30Gi, "half-N" 20Gi, "small-N" 10Gi, "free" and "plain" nothing; "other" draws on another set.
func partitioned() []*b.SliceBuilder {
	return []*b.SliceBuilder{
		b.Slice("counters").InPool("a", 1, 2).OnAllNodes().Counters("gpu", "memory", "40Gi").Counters("second", "memory", "10Gi"),
		b.Slice("devices").InPool("a", 1, 2).OnAllNodes().Devices(
			b.Device("big").Consumes("gpu", "memory", "30Gi"),
			b.Device("half-0").Consumes("gpu", "memory", "20Gi"), b.Device("half-1").Consumes("gpu", "memory", "20Gi"),
			b.Device("small-0").Consumes("gpu", "memory", "10Gi"), b.Device("small-1").Consumes("gpu", "memory", "10Gi"),
			b.Device("part").Consumes("gpu", "memory", "20Gi").Shared(),
			b.Device("free").Consumes("gpu", "memory", "0"),
			b.Device("other").Consumes("second", "memory", "10Gi"), b.Device("plain"),
		),
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		writes    []step
		want      map[string]string
		conflicts map[string][]string
	}{
		"exactly enough": {
			writes: []step{ours("x", "big"), ours("y", "small-0")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"the one that overdraws loses": {
			writes:    []step{ours("x", "big"), ours("y", "half-0")},
			want:      map[string]string{"x": "stays", "y": "earlier x: counter half-0 gpu/memory"},
			conflicts: map[string][]string{"x": {"later y: counter big gpu/memory"}},
		},
		"the sum of the earlier ones counts": {
			writes: []step{ours("x", "half-0"), ours("y", "small-0"), ours("z", "half-1")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "earlier x: counter half-1 gpu/memory"},
			conflicts: map[string][]string{
				"x": {"later z: counter half-0 gpu/memory"},
				"y": {"later z: counter small-0 gpu/memory"},
				"z": {"earlier x: counter half-1 gpu/memory", "earlier y: counter half-1 gpu/memory"},
			},
		},
		"later ones do not count": {
			writes: []step{ours("x", "small-0"), ours("y", "half-0"), ours("z", "half-1")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "earlier x: counter half-1 gpu/memory"},
		},
		"several devices of one claim": {
			writes: []step{ours("x", "small-0"), ours("y", "half-0", "half-1")},
			want:   map[string]string{"x": "stays", "y": "earlier x: counter half-0 gpu/memory"},
		},
		"a claim alone is in conflict with nobody": {
			writes: []step{ours("x", "half-0", "half-1", "big"), ours("y", "other")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"devices that draw nothing or from elsewhere": {
			writes: []step{ours("x", "half-0", "half-1"), ours("y", "free"), ours("z", "other"), ours("v", "unpublished"), ours("w", "big")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays", "v": "stays", "w": "earlier x: counter big gpu/memory"},
		},
		"access for administrators": {
			writes: []step{ours("x", "big"), withAdminAccess(ours("y", "half-0")), ours("z", "small-0")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays"},
		},
		"what was released": {
			writes: []step{ours("x", "big"), ours("y", "half-0"), free("x")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"a shared device draws once": {
			writes: []step{sharing("x", "part", "s1", ""), sharing("y", "part", "s2", ""), ours("z", "half-0"), ours("v", "small-0")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays", "v": "earlier x: counter small-0 gpu/memory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, partitioned()...)
			for i, claim := range tc.writes {
				w.write(uint64(10*(i+1)), claim)
			}
			w.requireVerdicts(tc.want)
			for name, want := range tc.conflicts {
				require.Equal(t, want, describeAll(w.Conflicts(uidOf(name))), name)
			}
		})
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	nic := b.Slice("a").OnAllNodes().Devices(
		b.Device("nic-0").Shared().Capacity("memory", "40Gi"), b.Device("nic-1").Shared().Capacity("memory", "40Gi"),
		b.Device("plain").Shared())
	for name, tc := range map[string]struct {
		writes []step
		want   map[string]string
	}{
		"exactly enough": {
			writes: []step{sharing("x", "nic-0", "s1", "30Gi"), sharing("y", "nic-0", "s2", "10Gi")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"the one that overdraws loses": {
			writes: []step{sharing("x", "nic-0", "s1", "30Gi"), sharing("y", "nic-0", "s2", "10Gi"), sharing("z", "nic-0", "s3", "1")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "earlier x: capacity nic-0 memory"},
		},
		"each device has its own": {
			writes: []step{sharing("x", "nic-0", "s1", "30Gi"), sharing("y", "nic-1", "s2", "30Gi")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"shares of nothing": {
			writes: []step{sharing("x", "nic-0", "s1", "30Gi"), sharing("y", "nic-0", "s2", "0"), sharing("z", "nic-0", "s3", "30Gi"), sharing("v", "nic-0", "s4", "")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "earlier x: capacity nic-0 memory", "v": "stays"},
		},
		"capacity that is not published": {
			writes: []step{sharing("x", "plain", "s1", "30Gi"), sharing("y", "plain", "s2", "30Gi"), sharing("z", "unknown", "s3", "1Gi"), sharing("v", "unknown", "s4", "1Gi")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays", "v": "stays"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nic)
			for i, claim := range tc.writes {
				w.write(uint64(10*(i+1)), claim)
			}
			w.requireVerdicts(tc.want)
		})
	}
}

// After a list the order is unknown: claims that fit together stay, and all claims that do not fit
// yield.
func TestLimitsInUnknownOrder(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t, partitioned()...)
	w.relist(100, at(50, ours("x", "half-0")), at(60, ours("y", "half-1")), at(70, ours("z", "other")))
	w.requireVerdicts(map[string]string{"x": "stays", "y": "stays", "z": "stays"})

	w.write(110, ours("v", "small-0"))
	w.requireVerdicts(map[string]string{"x": "stays", "y": "stays", "v": "earlier x: counter small-0 gpu/memory"})

	w.relist(200, at(150, ours("x", "half-0")), at(60, ours("y", "half-1")), at(170, ours("v", "small-0")))
	w.requireVerdicts(map[string]string{
		"x": "unknown y: counter half-0 gpu/memory",
		"y": "stays", // with x alone there is enough, and v is later
		"v": "earlier y: counter small-0 gpu/memory",
	})
}

func TestConflictTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(partitioned(), b.Slice("b").OnAllNodes().Devices(b.Device("nic").Shared().Capacity("memory", "10Gi")))...)
	w.write(10, ours("x", "big"))
	w.write(20, ours("y", "half-0"))
	w.write(30, inPool("b", sharing("z", "nic", "s1", "8Gi")))
	w.write(40, inPool("b", sharing("v", "nic", "s2", "8Gi")))
	w.write(50, inPool("b", ours("u", "nic")))
	for claim, want := range map[string]string{
		"y": "claim default/x was allocated devices that leave too little of counter gpu/memory for device half-0 of pool gpu.example.com/a first (resourceVersion 10; that of claim default/y is 20)",
		"v": "claim default/z was allocated a share of device nic of pool gpu.example.com/b that leaves too little of capacity memory first (resourceVersion 30; that of claim default/v is 40)",
		"u": "claim default/z was allocated device nic of pool gpu.example.com/b (one of the two has a share of it and the other has all of it) first (resourceVersion 30; that of claim default/u is 50)",
	} {
		require.Equal(t, want, w.lost(uidOf(claim)).String())
	}
}
