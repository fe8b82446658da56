package allocator_test

import "testing"

// FuzzSameAsUpstream compares with the structured allocator on the scenarios of
// arbitrary seeds, one at a time:
//
//	go test ./pkg/allocator -run '^$' -fuzz '^FuzzSameAsUpstream$' -fuzztime 10m
func FuzzSameAsUpstream(f *testing.F) {
	for seed := range int64(10) {
		f.Add(-seed)
	}
	celCache := newCache()
	f.Fuzz(func(t *testing.T, seed int64) {
		s := fromSeed(seed)
		if diff, _ := s.compare(t.Context(), celCache); diff != "" {
			t.Errorf("%s\n%s", diff, s)
		}
	})
}
