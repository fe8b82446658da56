package allocationlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// protected returns a claim that another scheduler is about to allocate.
func protected(manager, name string) *resourceapi.ResourceClaim {
	return withFinalizer(manager, name, resourceapi.Finalizer)
}

// withFinalizer returns a claim to which another manager has added a finalizer.
func withFinalizer(manager, name, finalizer string) *resourceapi.ResourceClaim {
	claim := free(name)
	claim.Finalizers = []string{finalizer}
	claim.ManagedFields = []metav1.ManagedFieldsEntry{ownerOfFinalizer(manager, finalizer)}
	return claim
}

// alsoProtected adds another owner of the finalizer.
func alsoProtected(manager string, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.ManagedFields = append(claim.ManagedFields, ownerOfFinalizer(manager, resourceapi.Finalizer))
	return claim
}

func ownerOfFinalizer(manager, finalizer string) metav1.ManagedFieldsEntry {
	return managed(manager, "", `{"f:metadata":{"f:finalizers":{".":{},"v:\"`+finalizer+`\"":{}}}}`)
}

// stillProtected is a claim whose allocation was taken away.
func stillProtected(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Finalizers = []string{resourceapi.Finalizer}
	return claim
}

// them is a non-participating scheduler.
const them = "kube-scheduler"

// newWorldWithThem returns a world in which the other scheduler has allocated before: only
// then do its announcements count.
func newWorldWithThem(t *testing.T) *world {
	w := newWorld(t)
	w.write(2, foreign("before", "gpu-9"))
	return w
}

// play has one step a second, from version 10 on.
func (w *world) play(steps ...step) {
	for i, claim := range steps {
		if isGone(claim) {
			w.remove(uint64(10*(i+1)), claim)
		} else {
			w.write(uint64(10*(i+1)), claim)
		}
		w.pass(time.Second)
	}
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func TestForeignDelay(t *testing.T) {
	t.Parallel()
	// The delay is asked for a second after the last step.
	for name, tc := range map[string]struct {
		steps []step
		want  time.Duration
	}{
		"nothing":                            {nil, 0},
		"announced":                          {[]step{protected(them, "x")}, 1 * time.Second},
		"announced and written again":        {[]step{protected(them, "x"), protected(them, "x")}, 2 * time.Second},
		"announced with another scheduler":   {[]step{alsoProtected("other", protected(them, "x"))}, 1 * time.Second},
		"allocated":                          {[]step{protected(them, "x"), foreign("y", "gpu-1"), foreign("x", "gpu-0")}, 2 * time.Second},
		"allocated by us":                    {[]step{protected(write.FieldManager, "x"), ours("x", "gpu-0")}, 0},
		"announced by us":                    {[]step{protected(write.FieldManager, "x")}, 0},
		"announced, allocated by us":         {[]step{protected(them, "x"), ours("x", "gpu-0")}, 0},
		"given up":                           {[]step{protected(them, "x"), free("x")}, 0},
		"given up and announced again":       {[]step{protected(them, "x"), free("x"), protected(them, "x")}, 0},
		"deleted":                            {[]step{protected(them, "x"), gone(protected(them, "x"))}, 0},
		"never announced":                    {[]step{foreign("x", "gpu-0")}, 0},
		"deallocated":                        {[]step{foreign("x", "gpu-0"), stillProtected(free("x"))}, 0},
		"deallocated and written":            {[]step{foreign("x", "gpu-0"), stillProtected(free("x")), stillProtected(free("x"))}, 0},
		"deallocated and allocated again":    {[]step{foreign("x", "gpu-0"), stillProtected(free("x")), foreign("x", "gpu-0")}, 0},
		"another finalizer":                  {[]step{withFinalizer(them, "x", "example.com/mine")}, 0},
		"the longest":                        {[]step{protected(them, "x"), protected(them, "y"), protected(them, "z"), foreign("y", "gpu-1"), foreign("x", "gpu-0"), foreign("z", "gpu-2")}, 4 * time.Second},
		"one that is older than the longest": {[]step{protected(them, "x"), foreign("x", "gpu-0"), protected(them, "y"), free("z"), foreign("y", "gpu-1")}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithThem(t)
			w.play(tc.steps...)
			require.Equal(t, tc.want, w.ForeignDelay(b.Namespace))
			w.pass(announcementMemory + time.Second)
			require.Zero(t, w.ForeignDelay(b.Namespace), "it is long ago")
		})
	}
}

// TestLongDelay: the delay of the slowest scheduler is capped.
func TestLongDelay(t *testing.T) {
	t.Parallel()
	w := newWorldWithThem(t)
	w.write(10, protected(them, "x"))
	w.pass(delayMemory + 5*time.Second)
	require.Equal(t, delayMemory, w.ForeignDelay(b.Namespace), "it is still to come")
	w.write(20, foreign("x", "gpu-0"))
	require.Equal(t, delayMemory, w.ForeignDelay(b.Namespace), "that is how long it took")
	w.pass(delayMemory)
	require.Equal(t, delayMemory, w.ForeignDelay(b.Namespace))
	w.pass(time.Second)
	require.Zero(t, w.ForeignDelay(b.Namespace), "it is long ago")
}

func TestDelayThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorldWithThem(t)
	w.write(10, protected(them, "x"))
	w.pass(announcementMemory + time.Second)
	require.Zero(t, w.ForeignDelay(b.Namespace), "whoever announced that has given up")
	w.write(20, foreign("x", "gpu-0"))
	require.Zero(t, w.ForeignDelay(b.Namespace), "it was tried again")
}

// TestAnnouncementsOfUsers: any user who may create a claim may protect it, as often as they like.
func TestAnnouncementsOfUsers(t *testing.T) {
	t.Parallel()
	w := newWorldWithThem(t)
	w.pass(time.Hour)
	for i := range 10 {
		w.write(uint64(10+2*i), protected("kubectl-patch", "x"))
		w.pass(time.Second)
		require.Zero(t, w.ForeignDelay(b.Namespace))
		w.write(uint64(11+2*i), free("x"))
	}
	require.False(t, w.ForeignWithin(time.Minute))
	// Nor does a user get further in the name of a scheduler, with one claim, than once.
	w.write(100, protected(them, "x2"))
	w.pass(time.Second)
	require.Equal(t, time.Second, w.ForeignDelay(b.Namespace))
	for i := range 10 {
		w.write(uint64(101+2*i), free("x2"))
		w.write(uint64(102+2*i), protected(them, "x2"))
		w.pass(time.Second)
		require.Zero(t, w.ForeignDelay(b.Namespace))
	}
}

// TestFirstAllocationTells: what was announced counts as soon as its author is known to
// allocate.
func TestFirstAllocationTells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play(protected(them, "x"), protected(them, "y"))
	require.Zero(t, w.ForeignDelay(b.Namespace))
	w.write(100, foreign("y", "gpu-0"))
	require.Equal(t, 2*time.Second, w.ForeignDelay(b.Namespace))
	w.write(110, foreign("x", "gpu-1"))
	w.pass(delayMemory)
	require.Equal(t, 2*time.Second, w.ForeignDelay(b.Namespace))
}

func TestAnnouncementIsForeign(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t)
	w.relist(10, at(5, protected(them, "old")), at(6, foreign("before", "gpu-9")))
	require.Zero(t, w.ForeignDelay(b.Namespace), "that was recorded as an hour ago")
	require.False(t, w.ForeignWithin(time.Minute))
	w.write(20, protected(write.FieldManager, "x"))
	require.False(t, w.ForeignWithin(time.Minute))
	w.write(30, protected(them, "y"))
	require.True(t, w.ForeignWithin(time.Second))

	w.relist(40, at(35, free("x")))
	require.Empty(t, w.own().announced, "gone in the meantime")
	w.relist(50, at(45, protected(them, "z")))
	w.pass(time.Second)
	require.Equal(t, time.Second, w.ForeignDelay(b.Namespace))
}

// TestAnnouncedBeforeTheStart: how old an announcement is that the first list shows, the
// server has recorded.
func TestAnnouncedBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newUnsyncedWorld(t)
	w.clock.SetTime(start.Add(-time.Hour + 3*time.Second)) // see managed
	w.relist(10, at(5, protected(them, "x")), at(6, foreign("y", "gpu-0")))
	require.Equal(t, 3*time.Second, w.ForeignDelay(b.Namespace))
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
