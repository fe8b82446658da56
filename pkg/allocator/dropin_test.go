package allocator_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// dropInCase is the input of New for node n and one claim for one device.
func dropInCase(slices ...*b.SliceBuilder) scenario {
	s := scenario{
		features: coreFeatures, classes: classList(b.Class("gpu")), node: b.Node("n"),
		claims: []*resourceapi.ResourceClaim{wants(1).Obj()},
	}
	for _, slice := range slices {
		s.slices = append(s.slices, slice.Obj())
	}
	return s
}

// TestNewSupportsEveryFeature switches on one feature at a time, also those that a
// later version of the upstream allocator may add.
func TestNewSupportsEveryFeature(t *testing.T) {
	for i := range reflect.TypeFor[structured.Features]().NumField() {
		var features structured.Features
		reflect.ValueOf(&features).Elem().Field(i).SetBool(true)
		t.Run(features.Set().UnsortedList()[0], func(t *testing.T) {
			s := dropInCase(onNode("p", gpus(1)...))
			s.features = features
			results, err := s.run(t.Context(), allocator.New, newCache())
			require.NoError(t, err)
			require.Len(t, results, 1)
		})
	}
}

// TestDropInAnswers covers the kinds of answers that callers distinguish.
func TestDropInAnswers(t *testing.T) {
	invalid := onNode("q", b.Device("same"), b.Device("same"))
	tests := map[string]struct {
		scenario scenario
		fits     bool
		class    string // of the error
	}{
		"a solution":                        {dropInCase(onNode("p", gpus(1)...)), true, "none"},
		"a solution beside an invalid pool": {dropInCase(onNode("p", gpus(1)...), invalid), true, "none"},
		"no claims": {
			func() scenario {
				s := dropInCase()
				s.claims = nil
				return s
			}(), true, "none",
		},
		"no solution":                         {dropInCase(), false, "none"},
		"no solution, but an invalid pool":    {dropInCase(invalid), false, "only this node"},
		"no solution, but a pool in the make": {dropInCase(b.Slice("p").InPool("p", 1, 2).OnNode("n").Devices(gpus(1)...)), false, "none"},
		"a claim that makes no sense": {
			func() scenario {
				s := dropInCase(onNode("p", gpus(1)...))
				s.claims = append(s.claims, b.Claim("c", b.Request("r", "missing")).Obj())
				return s
			}(), false, "fatal",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			results, err := tc.scenario.run(t.Context(), allocator.New, newCache())
			require.Equal(t, tc.class, errorClass(err), "%v", err)
			require.Equal(t, tc.class == "only this node", allocator.IsNodeError(err))
			require.Equal(t, tc.fits, results != nil)
			diff, _ := tc.scenario.compare(t.Context(), newCache())
			require.Empty(t, diff)
		})
	}
}

// TestDropInGivesUp uses a claim with so many wrong combinations that upstream, which tries all of them,
// would not finish.
func TestDropInGivesUp(t *testing.T) {
	c, claim := infeasible()
	s := dropInCase(c.slices...)
	s.classes = classList(append(c.classes, b.Class("gpu"))...)
	s.claims = []*resourceapi.ResourceClaim{claim.Obj()}
	results, err := s.run(t.Context(), allocator.New, newCache())
	require.Nil(t, results)
	require.ErrorIs(t, err, allocator.ErrGaveUp)
	require.Regexp(t, `^search gave up without an answer after \d+ steps$`, err.Error())
	require.True(t, allocator.IsNodeError(err), "other nodes may do")
}
