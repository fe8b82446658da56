package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestWithdrawnGroups: no plan contradicts the earlier published groups of a device in use.
func TestWithdrawnGroups(t *testing.T) {
	t.Parallel()
	draws := func(name string, groups ...string) *b.DeviceBuilder {
		return b.Device(name).Consumes("device", "memory", "1").Modify(func(d *resourceapi.Device) {
			d.ConsumesCounters[0].CompatibilityGroups = groups
		})
	}
	for name, tc := range map[string]struct {
		before, now []*b.DeviceBuilder
		want        string // none if empty
	}{
		"the only one with groups is gone": {before: []*b.DeviceBuilder{draws("held", "mig")}, now: []*b.DeviceBuilder{draws("none")}},
		"gone": {
			before: []*b.DeviceBuilder{draws("held", "mig")}, now: []*b.DeviceBuilder{draws("none"), draws("other", "vgpu"), draws("same", "mig")}, want: "same",
		},
		"draws nothing": {
			before: []*b.DeviceBuilder{draws("held", "mig")}, now: []*b.DeviceBuilder{b.Device("held"), draws("other", "vgpu"), draws("same", "mig")}, want: "same",
		},
		"has another group": {
			before: []*b.DeviceBuilder{draws("held", "mig")}, now: []*b.DeviceBuilder{draws("held", "vgpu"), draws("other", "vgpu"), draws("same", "mig")},
		},
		"had no groups": {
			before: []*b.DeviceBuilder{draws("held")}, now: []*b.DeviceBuilder{draws("other", "vgpu"), draws("same")}, want: "same",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := withCounters(tc.now...).everything()
			c.before, c.held = withCounters(tc.before...).slices, append(c.held, heldBy("old", "p", "held"))
			if tc.want != "" {
				require.Equal(t, []string{"gpu=p/" + tc.want}, chosen(c.mustFit(t, b.Claim("c", b.Request("gpu", "gpu")))[0]))
				return
			}
			require.Contains(t, c.mustNotFit(t, b.Claim("c", b.Request("gpu", "gpu"))).Reason(), "not compatible with devices in use")
		})
	}
}

// TestDrawersThatChanged: a device in use that drew on a counter is named once, regardless of its current publication.
func TestDrawersThatChanged(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]*b.DeviceBuilder{
		"less": b.Device("held").Consumes("device", "memory", "1Gi"), "nothing": b.Device("held"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := withCounters(now, b.Device("whole").Consumes("device", "memory", "80Gi"))
			c.before = withCounters(b.Device("held").Consumes("device", "memory", "40Gi")).slices
			c.held = append(c.held, heldBy("old", "p", "held"))
			result := c.mustNotFit(t, b.Claim("c", b.Request("gpu", "gpu")))
			require.Contains(t, result.Explain().String(), "device: memory (80Gi needed, 40Gi left); in use by default/old (held)")
		})
	}
}
