package allocator_test

import "testing"

// FuzzSameAsUpstream compares with the structured allocator on scenarios that the
// fuzzer makes up, decision by decision: see draws. "make fuzz" runs it for long,
// the tests run it for the corpus in testdata/fuzz.
func FuzzSameAsUpstream(f *testing.F) {
	for seed := range int64(10) {
		f.Add(-seed, []byte(nil))
	}
	celCache := newCache()
	f.Fuzz(func(t *testing.T, seed int64, decisions []byte) {
		s := newGenerator(seed, decisions).scenario()
		if diff, _ := s.compare(t.Context(), celCache); diff != "" {
			t.Errorf("%s\n%s", diff, s)
		}
	})
}
