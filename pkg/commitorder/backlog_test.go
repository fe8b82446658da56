package commitorder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/commit"
)

// protected returns a claim that somebody is about to allocate.
func protected(manager, name string) *resourceapi.ResourceClaim {
	claim := free(name)
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.ManagedFields = []metav1.ManagedFieldsEntry{managed(manager, "", `{"f:metadata":{"f:finalizers":{}}}`)}
	return claim
}

// stillProtected is a claim whose allocation was taken away.
func stillProtected(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Finalizers = []string{resourceapi.Finalizer}
	return claim
}

func TestForeignDelay(t *testing.T) {
	t.Parallel()
	const them = "kube-scheduler"
	// Each step is a second after the one before; the delay is asked for a second after
	// the last one.
	for name, tc := range map[string]struct {
		steps []step
		want  time.Duration
	}{
		"nothing":                            {nil, 0},
		"announced":                          {[]step{protected(them, "x")}, 1 * time.Second},
		"announced and written again":        {[]step{protected(them, "x"), protected(them, "x")}, 2 * time.Second},
		"allocated":                          {[]step{protected(them, "x"), foreign("y", "gpu-1"), foreign("x", "gpu-0")}, 2 * time.Second},
		"allocated by us":                    {[]step{protected(commit.FieldManager, "x"), ours("x", "gpu-0")}, 0},
		"announced by us":                    {[]step{protected(commit.FieldManager, "x")}, 0},
		"given up":                           {[]step{protected(them, "x"), free("x")}, 0},
		"deleted":                            {[]step{protected(them, "x"), gone(protected(them, "x"))}, 0},
		"never announced":                    {[]step{foreign("x", "gpu-0")}, 0},
		"deallocated":                        {[]step{foreign("x", "gpu-0"), stillProtected(free("x"))}, 0},
		"deallocated and written":            {[]step{foreign("x", "gpu-0"), stillProtected(free("x")), stillProtected(free("x"))}, 0},
		"deallocated and allocated again":    {[]step{foreign("x", "gpu-0"), stillProtected(free("x")), foreign("x", "gpu-0")}, 0},
		"the longest":                        {[]step{protected(them, "x"), protected(them, "y"), protected(them, "z"), foreign("y", "gpu-1"), foreign("x", "gpu-0"), foreign("z", "gpu-2")}, 4 * time.Second},
		"one that is older than the longest": {[]step{protected(them, "x"), foreign("x", "gpu-0"), protected(them, "y"), free("z"), foreign("y", "gpu-1")}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i, claim := range tc.steps {
				if isGone(claim) {
					w.remove(uint64(10*(i+1)), claim)
				} else {
					w.write(uint64(10*(i+1)), claim)
				}
				w.clock.SetTime(w.clock.Now().Add(time.Second))
			}
			require.Equal(t, tc.want, w.ForeignDelay())
			w.clock.SetTime(w.clock.Now().Add(delayMemory + time.Second))
			require.Zero(t, w.ForeignDelay(), "it is long ago")
		})
	}
}

func TestDelayThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(10, protected("kube-scheduler", "x"))
	w.clock.SetTime(start.Add(delayMemory + time.Second))
	require.Zero(t, w.ForeignDelay(), "whoever announced that has given up")
	w.write(20, foreign("x", "gpu-0"))
	require.Zero(t, w.ForeignDelay(), "it was tried again")
}

func TestAnnouncementIsForeign(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t)
	w.relist(10, at(5, protected("kube-scheduler", "old")))
	require.False(t, w.ForeignWithin(time.Hour), "nobody knows when that was")
	w.write(20, protected(commit.FieldManager, "x"))
	require.False(t, w.ForeignWithin(time.Hour))
	w.write(30, protected("kube-scheduler", "y"))
	require.True(t, w.ForeignWithin(time.Second))

	w.relist(40, at(35, free("x")))
	require.Empty(t, w.backlog.announced, "gone in the meantime")
	w.relist(50, at(45, protected("kube-scheduler", "z")))
	w.clock.SetTime(start.Add(time.Second))
	require.Equal(t, time.Second, w.ForeignDelay())
}

func TestCheckPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(10, foreign("x", "gpu-0"))
	w.write(20, ours("y", "gpu-1"))
	for device, want := range map[string]string{"gpu-0": "earlier x: held gpu-0", "gpu-1": "earlier y: held gpu-1", "gpu-2": "stays"} {
		require.Equal(t, want, verdict(w.CheckPlan(ours("z", device))))
	}
	require.Nil(t, w.CheckPlan(ours("y", "gpu-0")), "it has been allocated")
	require.Nil(t, w.CheckPlan(free("z")))
	require.Len(t, w.index.claims, 2, "a plan leaves nothing behind")
	requireConsistent(t, &w.index)
}
