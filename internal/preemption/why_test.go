package preemption

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWhy: users are told for whom a claim was deallocated, once, unless somebody else did it.
func TestWhy(t *testing.T) {
	t.Parallel()
	const why = "because nobody uses it any more, and a pod that preempts others waits for its devices"
	for name, tc := range map[string]struct {
		preemptors []types.UID
		first      bool
		want       []string
	}{
		"one preemptor":            {preemptors: []types.UID{"one"}, want: []string{why + " (UID one)"}},
		"two preemptors":           {preemptors: []types.UID{"one", "two"}, want: []string{why}},
		"the controller was first": {preemptors: []types.UID{"one"}, first: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, held("a"), []*v1.Pod{victim("a")}, func(t *testing.T, w *world) {
				for _, preemptor := range tc.preemptors {
					w.await(preemptor)
				}
				if tc.first {
					w.write(deallocated)
				}
				w.remove("a")
				w.settle()
				require.Equal(t, tc.want, w.told)
			})
		})
	}
}
