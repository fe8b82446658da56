package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// inGroups is a device that draws 10 of memory, with compatibility groups.
func inGroups(name string, groups ...string) *b.DeviceBuilder {
	return draws(name, "10").Modify(func(d *resourceapi.Device) { d.ConsumesCounters[0].CompatibilityGroups = groups })
}

// TestWithdrawnGroups: a device in use that is not published any more, or with other compatibility groups, keeps those without the
// compatibility groups away that it had.
func TestWithdrawnGroups(t *testing.T) {
	t.Parallel()
	one, two, both, none := inGroups("one", "first"), inGroups("two", "second"), inGroups("both", "first", "second"), inGroups("none")
	for name, tc := range map[string]struct {
		first, then []*b.DeviceBuilder
		fits        []string
	}{
		"as before":                        {then: []*b.DeviceBuilder{inGroups("held", "first"), one, two, both, none}, fits: []string{"both", "one"}},
		"gone":                             {then: []*b.DeviceBuilder{one, two, both, none}, fits: []string{"both", "one"}},
		"draws nothing":                    {then: []*b.DeviceBuilder{b.Device("held"), one, two, both, none}, fits: []string{"both", "one"}},
		"has no groups":                    {then: []*b.DeviceBuilder{inGroups("held"), one, two, both, none}, fits: []string{"both", "one"}},
		"has another group":                {then: []*b.DeviceBuilder{inGroups("held", "second"), one, two, both, none}},
		"has more groups":                  {then: []*b.DeviceBuilder{inGroups("held", "first", "second"), one, two, both, none}, fits: []string{"both", "one"}},
		"the only one with groups is gone": {then: []*b.DeviceBuilder{none}},
		"had no groups and is gone": {
			first: []*b.DeviceBuilder{inGroups("held")}, then: []*b.DeviceBuilder{one, two, both, none}, fits: []string{"none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := tc.first
			if first == nil {
				first = []*b.DeviceBuilder{inGroups("held", "first")}
			}
			f := newFollowing(generation(1, first...)...)
			refresh(f.Ledger, "x", b.Claim("x").Allocated("p", "held"))
			f.publish(generation(2, tc.then...)...)
			f.withdraw("counters-1", "devices-1")
			require.Equal(t, "30", f.memory())
			fits := []string{}
			for _, device := range []string{"both", "none", "one", "two"} {
				pool := f.store.Pool(poolID("p")).Everywhere()
				if pool.Device(device) == nil {
					continue
				}
				if err := f.tries(device); err == nil {
					fits = append(fits, device)
				} else {
					require.ErrorContains(t, err, "no compatibility group in common")
				}
			}
			require.ElementsMatch(t, tc.fits, fits)
			refresh(f.Ledger, "x", nil)
			require.NoError(t, f.tries("none"), "nothing of it is left")
		})
	}
}

// TestGroupsOfTwoGenerations: what was remembered of a device that is gone has the compatibility groups of all that was published of it.
func TestGroupsOfTwoGenerations(t *testing.T) {
	t.Parallel()
	f := newFollowing(generation(1, inGroups("held", "first", "second"))...)
	refresh(f.Ledger, "x", b.Claim("x").Allocated("p", "held"))
	f.publish(generation(2, inGroups("held", "second", "third"))...)
	f.publish(generation(3, inGroups("one", "first"), inGroups("two", "second"), inGroups("three", "third"))...)
	require.NoError(t, f.tries("two"))
	require.ErrorContains(t, f.tries("one"), "no compatibility group in common")
	require.ErrorContains(t, f.tries("three"), "no compatibility group in common")
}
