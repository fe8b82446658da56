package allocationlog

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// grouped is a pool with plenty of memory, from which only devices with a group in common
// may draw at the same time.
func grouped() []*b.SliceBuilder {
	partition := func(name string, groups ...string) *b.DeviceBuilder {
		return b.Device(name).Consumes("gpu", "memory", "1Gi").Modify(func(d *resourceapi.Device) {
			d.ConsumesCounters[0].CompatibilityGroups = groups
		})
	}
	return []*b.SliceBuilder{
		b.Slice("counters").InPool("a", 1, 2).OnAllNodes().Counters("gpu", "memory", "40Gi").Counters("second", "memory", "40Gi"),
		b.Slice("devices").InPool("a", 1, 2).OnAllNodes().Devices(
			partition("mig-0", "mig"), partition("mig-1", "mig"), partition("vgpu", "vgpu"), partition("both", "mig", "vgpu"),
			partition("none"), b.Device("other").Consumes("second", "memory", "1Gi"), b.Device("free")),
	}
}

func TestCompatibilityGroups(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		writes    []step
		want      map[string]string
		conflicts map[string][]string
	}{
		"compatible": {
			writes: []step{ours("x", "mig-0"), ours("y", "mig-1"), ours("z", "both")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays"},
		},
		"the later one loses": {
			writes:    []step{ours("x", "mig-0"), ours("y", "vgpu")},
			want:      map[string]string{"x": "stays", "y": "earlier x: incompatible vgpu gpu"},
			conflicts: map[string][]string{"x": {"later y: incompatible mig-0 gpu"}},
		},
		"a group has to be common to all": {
			writes:    []step{ours("x", "both"), ours("y", "mig-0"), ours("z", "vgpu")},
			want:      map[string]string{"x": "stays", "y": "stays", "z": "earlier x: incompatible vgpu gpu"},
			conflicts: map[string][]string{"z": {"earlier x: incompatible vgpu gpu", "earlier y: incompatible vgpu gpu"}},
		},
		"without groups": {
			writes: []step{ours("x", "none"), ours("y", "mig-0"), ours("z", "none")},
			want:   map[string]string{"x": "stays", "y": "earlier x: incompatible mig-0 gpu", "z": "earlier x: held none"},
		},
		"other counter sets, or none": {
			writes: []step{ours("x", "mig-0"), ours("y", "other"), ours("z", "free"), ours("v", "unpublished")},
			want:   map[string]string{"x": "stays", "y": "stays", "z": "stays", "v": "stays"},
		},
		"access for administrators": {
			writes: []step{ours("x", "mig-0"), withAdminAccess(ours("y", "vgpu"))},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
		"what was released": {
			writes: []step{ours("x", "mig-0"), ours("y", "vgpu"), free("x")},
			want:   map[string]string{"x": "stays", "y": "stays"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, grouped()...)
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
