package allocationlog

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestExpected compares with all that was announced being looked at, after each event.
func TestExpected(t *testing.T) {
	t.Parallel()
	managers := []string{"a", "b", "c", write.FieldManager}
	for seed := range int64(60) {
		random := rand.New(rand.NewSource(seed))
		all, now := newBacklogs(), start
		b := all.in(builder.Namespace, now)
		authors, announced := sets.New[string](), make(map[types.UID]*announcement)
		counted := 0
		for range 300 {
			now = now.Add(time.Duration(random.Intn(4000)) * time.Millisecond)
			name, manager := fmt.Sprint("c", random.Intn(12)), managers[random.Intn(len(managers))]
			claim := free(name)
			var by author
			switch random.Intn(12) {
			case 0:
				claim = foreign(name, "gpu-0")
				if random.Intn(20) == 0 {
					by.others = []string{manager}
					authors.Insert(manager)
				}
				delete(announced, claim.UID)
			case 1:
				b.forget(claim.UID)
				delete(announced, claim.UID)
				continue
			case 2:
				if announced[claim.UID] != nil {
					announced[claim.UID] = nothing
				}
			default:
				claim = protected(manager, name)
				if random.Intn(3) == 0 {
					claim = alsoProtected(managers[random.Intn(len(managers))], claim)
				}
				if a := announcementOf(claim); announced[claim.UID] == nil && !a.ours() {
					a.since = now
					announced[claim.UID] = a
				}
			}
			all.note(claim, by, false, false, now)
			var want, got []Announcement
			for _, a := range announced {
				if !a.since.IsZero() && now.Sub(a.since) <= announcementMemory && authors.HasAny(a.by...) {
					want = append(want, Announcement{a.claim, a.since})
				}
			}
			oldest := now
			for _, a := range b.expected.all(now) {
				got = append(got, Announcement{a.claim, a.since})
			}
			for _, a := range want {
				if a.Since.Before(oldest) {
					oldest = a.Since
				}
			}
			require.ElementsMatch(t, want, got, "seed %d", seed)
			if len(want) > 0 {
				require.Equal(t, oldest, b.expected.oldest(now).since)
				counted++
			} else {
				require.Nil(t, b.expected.oldest(now))
			}
		}
		require.LessOrEqual(t, keptBy(b.expected), len(b.announced), "nothing is kept that is gone")
		if len(authors) > 1 {
			require.NotZero(t, counted)
		}
	}
}

// keptBy returns how many announcements are kept.
func keptBy(e *expected) int {
	all := sets.New(e.believed...)
	for _, others := range e.others {
		all = all.Union(others)
	}
	return len(all)
}

// TestNobodyIsHeldUp: announcements that do not count cost nothing: claims that users protect, and
// announcements that were taken back or are too old. Claims that are allocated or deleted leave
// nothing behind.
func TestNobodyIsHeldUp(t *testing.T) {
	t.Parallel()
	w := newWorldWithThem(t)
	for i := range 50 {
		w.write(uint64(100+i), protected("kubectl-patch", fmt.Sprint("user-", i)))
	}
	require.Empty(t, w.own().expected.believed)
	w.write(200, protected(them, "x"))
	w.write(201, protected(them, "y"))
	w.write(202, protected(them, "z"))
	require.Len(t, w.own().expected.believed, 3)
	w.write(203, free("x"))
	w.write(204, foreign("y", "gpu-1"))
	w.remove(205, protected(them, "z"))
	require.Empty(t, w.own().expected.believed)
	w.write(206, protected(them, "v"))
	w.pass(announcementMemory + time.Second)
	require.Empty(t, w.Announced(builder.Namespace))
	require.Empty(t, w.own().expected.believed)
	for i := range 50 {
		w.remove(uint64(300+i), protected("kubectl-patch", fmt.Sprint("user-", i)))
	}
	require.Empty(t, w.own().expected.others)
}

// BenchmarkForeignDelay measures a question that a settling pod asks repeatedly, beside claims that
// a user protects and that are never allocated.
func BenchmarkForeignDelay(b *testing.B) {
	for _, claims := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprintf("claims=%d", claims), func(b *testing.B) {
			o := New(nil, noPools, clock.RealClock{})
			require.NoError(b, feed{o}.Replace(nil, "1"))
			var version uint64 = 2
			write := func(claim *resourceapi.ResourceClaim) {
				require.NoError(b, feed{o}.Update(at(version, claim)))
				version++
			}
			write(foreign("before", "gpu-9"))
			for i := range claims {
				write(protected("kubectl-patch", fmt.Sprint("user-", i)))
			}
			for b.Loop() {
				if o.ForeignDelay(builder.Namespace) != 0 || len(o.Announced(builder.Namespace)) > 0 {
					b.Fatal("users announce nothing")
				}
			}
		})
	}
}
