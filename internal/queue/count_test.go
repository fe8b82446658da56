package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestCount: each pod that waits counts once, and none that is bound or gone.
func TestCount(t *testing.T) {
	t.Parallel()
	pods, waker, _ := wakers()
	named := func(name string) *v1.Pod {
		return builder.Pod(name, func(pod *v1.Pod) { pod.UID = types.UID(name) })
	}
	counts := func() map[string]int {
		var all reasons.Counts
		pods.Count(&all)
		result := make(map[string]int)
		for cause, n := range all {
			if n > 0 {
				result[reasons.Cause(cause).String()] = n
			}
		}
		return result
	}
	pods.Begin(named("tried"))
	held := pods.Begin(named("held"))
	held.Causes.Note(reasons.NoDevices)
	held.Causes.Note(reasons.Held)
	waker.Reject(held)
	waker.Reject(pods.Begin(named("rejected")))
	pods.Lacks(named("never-tried"), true)
	require.Equal(t, map[string]int{"held": 1, "other": 1, "claim_missing": 1}, counts())

	pods.Lacks(named("held"), true)
	require.Equal(t, map[string]int{"other": 1, "claim_missing": 2}, counts(), "a claim of it is gone")
	pods.Lacks(named("held"), false)
	require.Equal(t, map[string]int{"held": 1, "other": 1, "claim_missing": 1}, counts())

	pods.Begin(named("held"))
	require.Equal(t, map[string]int{"other": 1, "claim_missing": 1}, counts(), "what it was is over when it is tried again")

	pods.AwaitsGroup(named("in-group"), true)
	pods.AwaitsGroup(named("rejected"), true)
	require.Equal(t, map[string]int{"group": 2, "claim_missing": 1}, counts(), "what one lacked when it was tried by itself does not count")
	pods.Lacks(named("in-group"), true)
	require.Equal(t, map[string]int{"group": 1, "claim_missing": 2}, counts())
	pods.Forget("in-group")
	pods.AwaitsGroup(named("rejected"), false)
	require.Equal(t, map[string]int{"other": 1, "claim_missing": 1}, counts())

	pods.Forget("rejected")
	pods.Forget("never-tried")
	require.Empty(t, counts())
	pods.exists = func(*v1.Pod) bool { return false }
	pods.Lacks(named("gone"), true)
	pods.AwaitsGroup(named("gone"), true)
	require.Empty(t, counts(), "nobody else would forget it")
}
