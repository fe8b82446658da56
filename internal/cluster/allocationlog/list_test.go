package allocationlog

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is known of the order after a new list, in every combination of what was seen
// before (as events, in versions 10 and 20) and what the list in version 100 shows.
func TestRelist(t *testing.T) {
	t.Parallel()
	x, y := ours("x", "gpu-0"), ours("y", "gpu-0")
	for name, tc := range map[string]struct {
		before []*resourceapi.ResourceClaim // nil: nothing in that version
		list   []*resourceapi.ResourceClaim
		want   map[string]string
		spans  map[string]Span
	}{
		"both seen before": {
			before: []*resourceapi.ResourceClaim{x, y},
			list:   []*resourceapi.ResourceClaim{at(20, y), at(10, x)},
			want:   map[string]string{"x": "stays", "y": "earlier x: held gpu-0"},
			spans:  map[string]Span{"x": {10, 10}, "y": {20, 20}},
		},
		"one seen before": {
			before: []*resourceapi.ResourceClaim{nil, y},
			list:   []*resourceapi.ResourceClaim{at(50, x), at(20, y)},
			want:   map[string]string{"x": "earlier y: held gpu-0", "y": "stays"},
			spans:  map[string]Span{"x": {21, 50}, "y": {20, 20}},
		},
		"both new": {
			before: []*resourceapi.ResourceClaim{free("x"), free("y")},
			list:   []*resourceapi.ResourceClaim{at(50, x), at(60, y)},
			want:   map[string]string{"x": "unknown y: held gpu-0", "y": "unknown x: held gpu-0"},
			spans:  map[string]Span{"x": {21, 50}, "y": {21, 60}},
		},
		"the first one was written again": {
			before: []*resourceapi.ResourceClaim{x, y},
			list:   []*resourceapi.ResourceClaim{at(50, x), at(20, y)},
			want:   map[string]string{"x": "unknown y: held gpu-0", "y": "unknown x: held gpu-0"},
			spans:  map[string]Span{"x": {10, 50}, "y": {20, 20}},
		},
		"the second one was written again": {
			before: []*resourceapi.ResourceClaim{x, y},
			list:   []*resourceapi.ResourceClaim{at(10, x), at(50, y)},
			want:   map[string]string{"x": "stays", "y": "earlier x: held gpu-0"},
			spans:  map[string]Span{"x": {10, 10}, "y": {20, 50}},
		},
		"one got other devices": {
			before: []*resourceapi.ResourceClaim{ours("x", "gpu-1"), y},
			list:   []*resourceapi.ResourceClaim{at(50, x), at(20, y)},
			want:   map[string]string{"x": "earlier y: held gpu-0", "y": "stays"},
			spans:  map[string]Span{"x": {21, 50}, "y": {20, 20}},
		},
		"one was deallocated": {
			before: []*resourceapi.ResourceClaim{x, y},
			list:   []*resourceapi.ResourceClaim{at(50, free("x")), at(20, y)},
			want:   map[string]string{"x": "stays", "y": "stays"},
			spans:  map[string]Span{"y": {20, 20}},
		},
		"one was deleted": {
			before: []*resourceapi.ResourceClaim{x, y},
			list:   []*resourceapi.ResourceClaim{at(20, y)},
			want:   map[string]string{"y": "stays"},
			spans:  map[string]Span{"y": {20, 20}},
		},
		"one was replaced by another claim of that name": {
			before: []*resourceapi.ResourceClaim{x, y},
			list:   []*resourceapi.ResourceClaim{at(50, replaced(ours("x", "gpu-0"))), at(20, y)},
			want:   map[string]string{"x": "stays", "x-second": "earlier y: held gpu-0", "y": "stays"},
			spans:  map[string]Span{"x-second": {21, 50}, "y": {20, 20}},
		},
		"an old state that had not been seen": {
			before: []*resourceapi.ResourceClaim{nil, y},
			list:   []*resourceapi.ResourceClaim{at(15, x), at(20, y)},
			want:   map[string]string{"x": "stays", "y": "earlier x: held gpu-0"},
			spans:  map[string]Span{"x": {0, 15}, "y": {20, 20}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i, claim := range tc.before {
				if claim != nil {
					w.write(uint64(10*(i+1)), claim)
				}
			}
			w.relist(100, tc.list...)
			w.requireVerdicts(tc.want)
			require.Equal(t, tc.spans, spans(w))
			require.EqualValues(t, 100, w.progress.upTo())
			requireConsistent(t, &w.index)

			w.write(110, ours("z", "gpu-0"))
			require.Equal(t, Earlier, w.lost("uid-z").Relation, "what comes after the list is later")
		})
	}
}

func spans(w *world) map[string]Span {
	result := make(map[string]Span)
	for uid, a := range w.index.claims {
		result[string(uid[len("uid-"):])] = a.written
	}
	return result
}

func TestFirstList(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t)
	w.relist(100, at(50, ours("x", "gpu-0")), at(60, ours("y", "gpu-0")), at(70, ours("v", "gpu-1")))
	w.requireVerdicts(map[string]string{"x": "unknown y: held gpu-0", "y": "unknown x: held gpu-0", "v": "stays"})
	require.Contains(t, w.lost("uid-x").String(), "(resourceVersion at most 60; that of claim default/x is at most 50)")

	w.write(110, free("y"))
	w.requireVerdicts(map[string]string{"x": "stays", "y": "stays"})
}

// A claim that was deallocated and allocated again by another scheduler while the watch was broken
// looks unchanged, except for the author.
func TestRelistShowsAnotherAuthor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(10, ours("x", "gpu-0"))
	w.relist(100, at(50, foreign("x", "gpu-0")))
	w.write(110, ours("y", "gpu-0"))
	require.True(t, w.lost("uid-y").Other.Foreign)
}

// A cluster that was restored from a backup repeats versions: nothing is known of the
// order of what was seen before.
func TestRelistInThePast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(40, ours("x", "gpu-0"))
	w.write(50, ours("y", "gpu-0"))
	w.relist(45, at(40, ours("x", "gpu-0")), at(42, ours("y", "gpu-0")))
	require.EqualValues(t, 45, w.progress.upTo())
	require.Equal(t, map[string]Span{"x": {0, 40}, "y": {0, 42}}, spans(w))
	w.write(46, ours("z", "gpu-0"))
	require.Equal(t, Earlier, w.lost("uid-z").Relation, "events in versions that were used before")
}

// A watch without version begins with all claims in any order.
func TestUnorderedEvents(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t)
	require.NoError(t, feed{w.Log}.Add(at(60, ours("x", "gpu-0"))))
	require.NoError(t, feed{w.Log}.Add(at(50, ours("y", "gpu-0"))))
	w.requireVerdicts(map[string]string{"x": "unknown y: held gpu-0", "y": "unknown x: held gpu-0"})
	require.Zero(t, w.progress.upTo())
	w.write(70, ours("z", "gpu-0"))
	require.Equal(t, Earlier, w.lost("uid-z").Relation)
}

// Versions that are not numbers leave the order open, they do not hide a conflict.
func TestVersionsThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(10, ours("x", "gpu-0"))
	odd := ours("y", "gpu-0")
	odd.ResourceVersion = "r2d2"
	require.NoError(t, feed{w.Log}.Update(odd))
	feed{w.Log}.UpdateResourceVersion("r2d2")
	require.EqualValues(t, 10, w.progress.upTo())
	require.Equal(t, Unknown, w.lost("uid-x").Relation)
	require.Contains(t, w.lost("uid-x").String(), "resourceVersion unknown")

	w.relist(20, odd, at(10, ours("x", "gpu-0")))
	w.requireVerdicts(map[string]string{"x": "unknown y: held gpu-0", "y": "unknown x: held gpu-0"})
}

func TestWrongObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := feed{w.Log}
	for name, err := range map[string]error{
		"update": f.Update("claim"), "add": f.Add(7), "delete": f.Delete(nil), "replace": f.Replace([]any{&metav1.Status{}}, "5"),
	} {
		require.ErrorContains(t, err, "expected a ResourceClaim", name)
	}
	require.EqualValues(t, 1, w.progress.upTo())
	_, err := f.Transformer()(nil)
	require.Error(t, err)
	require.NoError(t, f.Resync())
}

// What the reflector keeps while it collects a list has all that the index needs.
func TestTransformerKeepsWhatMatters(t *testing.T) {
	t.Parallel()
	full := sharing("x", "nic-0", "s1", "10Gi")
	full.Labels = map[string]string{"app": "x"}
	full.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nic"}}
	full.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Name: "pod"}}
	want := newAllocation(full, 5, exactly(5))
	transformed, err := feed{}.Transformer()(full.DeepCopy())
	require.NoError(t, err)
	slimmed := transformed.(*resourceapi.ResourceClaim)
	require.Equal(t, want, newAllocation(slimmed, 5, exactly(5)))
	require.Equal(t, authorOf(full), authorOf(slimmed))
	require.Empty(t, slimmed.Labels)
	require.Empty(t, slimmed.Spec)
	require.Len(t, slimmed.Status.ReservedFor, 1, "of the pod that the claim was allocated for")
	full.Status.ReservedFor = append(full.Status.ReservedFor, full.Status.ReservedFor[0])
	transformed, err = feed{}.Transformer()(full)
	require.NoError(t, err)
	require.Empty(t, transformed.(*resourceapi.ResourceClaim).Status.ReservedFor)
}
