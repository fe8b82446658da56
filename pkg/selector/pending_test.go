package selector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// endless is longer than any test.
const endless = 1000 * time.Hour

func TestWhatTakesLongGoesOnInTheBackground(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, on := pools(t, 1, 8)
			e := newTimed(t, map[string]time.Duration{expression(1): 400 * time.Millisecond})
			e.deaf = deaf
			work, took := e.pending(t, on[0], expression(1))
			require.Equal(t, quickly, took)
			told := make(chan time.Time, 1)
			_, ok := work.Notify(func() { told <- time.Now() })
			require.True(t, ok)
			_, took = e.pending(t, on[0], expression(1))
			require.Zero(t, took, "it is known to take long")
			start := time.Now()
			require.Equal(t, 8*400*time.Millisecond, (<-told).Sub(start), "all devices, from the beginning")
			selection, took, err := e.ask(t, on[0], expression(1))
			require.NoError(t, err)
			require.Zero(t, took)
			require.Equal(t, 8, selection.Matches.Len())
			_, ok = work.Notify(func() { t.Error("told twice") })
			require.False(t, ok)
			synctest.Wait()
			require.Zero(t, e.overdue.Load())
			require.False(t, e.busy())
		})
	}
}

func TestBudgetIsForAllExpressionsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 1, 1)
		takes := make(map[string]time.Duration)
		for i := range 10 {
			takes[expression(i)] = 15 * time.Millisecond
		}
		e, start := newTimed(t, takes), time.Now()
		ctx := WithBudget(t.Context(), NewBudget(2*quickly, 100*time.Millisecond))
		answers := 0
		for i := range 10 {
			if _, err := e.Select(ctx, on[0], aSet(expression(i))); err == nil {
				answers++
			}
		}
		require.Equal(t, 2, answers)
		require.Equal(t, 2*quickly, time.Since(start))
		for i := range 10 {
			require.False(t, e.background.costly(question{expression: expression(i)}), "it was the budget that was too small")
		}
		time.Sleep(200 * time.Millisecond)
		for i := range 10 {
			_, err := e.Select(ctx, on[0], aSet(expression(i)))
			require.NoError(t, err)
		}
		start = time.Now()
		_, err := e.Select(ctx, on[0], aSet(expression(11)))
		require.NoError(t, err, "the budget is renewed")
		require.Zero(t, time.Since(start))
	})
}

// TestWhatIsWaitedForAtOnceCountsOnce: Filter runs for many nodes at once.
func TestWhatIsWaitedForAtOnceCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 16, 1)
		e := newTimed(t, map[string]time.Duration{expression(1): 15 * time.Millisecond})
		ctx := WithBudget(t.Context(), NewBudget(2*quickly, 0))
		var all sync.WaitGroup
		for _, pool := range on {
			all.Go(func() {
				_, err := e.Select(ctx, pool, aSet(expression(1)))
				require.NoError(t, err)
			})
		}
		all.Wait()
	})
}

// TestOrdinaryExpressionsGoFirst: however many costly ones there are.
func TestOrdinaryExpressionsGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 5, 4)
		takes := map[string]time.Duration{}
		for i := range 10 {
			takes[expression(i)] = time.Second
		}
		e := newTimed(t, takes)
		for i := range 10 {
			e.pending(t, on[0], expression(i))
		}
		spent := NewBudget(0, 0)
		var last *Pending
		for _, pool := range on {
			_, err := e.Select(WithBudget(t.Context(), spent), pool, aSet(expression(100)))
			require.ErrorAs(t, err, &last)
		}
		told, start := make(chan bool), time.Now()
		_, ok := last.Work.Notify(func() { close(told) })
		require.True(t, ok)
		<-told
		require.LessOrEqual(t, time.Since(start), time.Second, "the device that was begun")
		time.Sleep(12 * time.Second)
		e.mutex.Lock()
		defer e.mutex.Unlock()
		turns := map[string]int{}
		for _, begun := range e.order[len(e.order)-10:] {
			turns[begun]++
		}
		require.Len(t, turns, 10, "costly ones take turns, device by device")
	})
}

// TestCostlyUntilProvenOtherwise: that an expression took long may be due to the machine.
func TestCostlyUntilProvenOtherwise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 3, 2)
		e := newTimed(t, map[string]time.Duration{expression(1): time.Second})
		e.pending(t, on[0], expression(1))
		synctest.Wait()
		time.Sleep(10 * time.Second)
		e.mutex.Lock()
		delete(e.takes, expression(1))
		e.mutex.Unlock()
		_, took := e.pending(t, on[1], expression(1))
		require.Zero(t, took, "it did take long")
		time.Sleep(10 * time.Second)
		_, _, err := e.ask(t, on[2], expression(1))
		require.NoError(t, err)
		require.False(t, e.background.costly(question{expression: expression(1)}))
	})
}

// TestNothingIsDoneForNobody: no evaluation continues for slices that are gone, or without callers.
func TestNothingIsDoneForNobody(t *testing.T) {
	t.Parallel()
	t.Run("content gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, on := pools(t, 100, 2)
			e := newTimed(t, map[string]time.Duration{expression(1): time.Second})
			var work *Work
			for _, pool := range on {
				work, _ = e.pending(t, pool, expression(1))
				store.RefreshSlice(pool.Devices[0].Slice.Name, func() *resourceapi.ResourceSlice { return nil })
			}
			told, start := make(chan bool), time.Now()
			work.Notify(func() { close(told) })
			<-told
			require.Less(t, time.Since(start), 2*time.Second)
		})
	})
	t.Run("nobody waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, on := pools(t, 1, 4)
			e := newTimed(t, map[string]time.Duration{expression(1): 40 * time.Second, expression(2): 40 * time.Second})
			left, _ := e.pending(t, on[0], expression(1))
			leave, _ := left.Notify(func() { t.Error("told, although it has left") })
			leave()
			stays, _ := e.pending(t, on[0], expression(2))
			told := make(chan bool)
			stays.Notify(func() { close(told) })
			<-told
			require.False(t, e.knows(on[0], expression(1)))
			require.True(t, e.knows(on[0], expression(2)))
			synctest.Wait()
			require.False(t, e.busy())
		})
	})
}

func TestThoseWhoWaitHearOfParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 100, 1)
		e := newTimed(t, map[string]time.Duration{expression(1): 300 * time.Millisecond})
		for {
			var work *Work
			known := 0
			for _, pool := range on {
				if _, _, err := e.ask(t, pool, expression(1)); err == nil {
					known++
				} else {
					var pending *Pending
					require.ErrorAs(t, err, &pending)
					work = pending.Work
				}
			}
			if work == nil {
				break
			}
			start, told := time.Now(), make(chan bool)
			work.Notify(func() { close(told) })
			<-told
			require.LessOrEqual(t, time.Since(start), tellAfter+300*time.Millisecond)
		}
		require.Less(t, len(e.order), 110, "each device once, and some that were interrupted")
	})
}

// TestQueueIsBounded: callers ask again about questions that do not fit, and get answers in the end.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, maxJudgements+100, 1)
		e := newTimed(t, nil)
		spent := WithBudget(t.Context(), NewBudget(0, 0))
		rounds := 0
		for pending := true; pending; rounds++ {
			pending = false
			for i := range 2 * maxWorks {
				_, err := e.Select(spent, on[0], aSet(expression(i)))
				pending = pending || err != nil
			}
			for _, pool := range on {
				_, err := e.Select(spent, pool, aSet(expression(1)))
				pending = pending || err != nil
			}
			require.LessOrEqual(t, e.queued(), maxWorks)
			synctest.Wait()
		}
		require.Less(t, rounds, 5)
	})
}

// TestTenantsShareTheBackground: the questions of one tenant wait for about twice their own time, regardless
// of another tenant's questions, and get into a full queue.
func TestTenantsShareTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 5, 4)
		const own = 1000
		takes := map[string]time.Duration{expression(own): 100 * time.Millisecond}
		for i := range 2 * maxWorks {
			takes[expression(i)] = 400 * time.Millisecond
		}
		e := newTimed(t, takes)
		ask := func(tenant string, i int) error {
			var pending error
			for _, pool := range on {
				if _, err := e.Select(WithBudget(t.Context(), NewBudget(2*quickly, 0).For(tenant)), pool, aSet(expression(i))); err != nil {
					pending = err
				}
			}
			return pending
		}
		for i := range 2 * maxWorks {
			require.ErrorIs(t, ask("many", i), ErrPending)
		}
		require.Equal(t, maxWorks, e.queued())
		start := time.Now()
		for {
			var pending *Pending
			if !errors.As(ask("one", own), &pending) {
				break
			}
			told := make(chan bool)
			if _, ok := pending.Work.Notify(func() { close(told) }); ok {
				<-told
			}
		}
		require.LessOrEqual(t, time.Since(start), 2*5*4*100*time.Millisecond+2*tellAfter)
		require.Equal(t, []string{"many"}, e.served(), "who has nothing there is forgotten")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, e.served())
	})
}

// TestOverdueEvaluationsAreFew: evaluations that cannot be interrupted must not take all processors.
func TestOverdueEvaluationsAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 1, 1)
		takes := make(map[string]time.Duration)
		for i := range 10 {
			takes[expression(i)] = 10 * time.Second
		}
		e := newTimed(t, takes)
		e.deaf = true
		for i := range 10 {
			_, took := e.pending(t, on[0], expression(i))
			require.Equal(t, i < maxOverdue, took > 0, "%s", took)
		}
		require.EqualValues(t, maxOverdue, e.overdue.Load())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, e.overdue.Load())
	})
}

// TestTheEndOfTheContextIsNotPending: nor does it start anything.
func TestTheEndOfTheContextIsNotPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 1, 1)
		e := newTimed(t, map[string]time.Duration{expression(1): endless})
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(quickly/2, cancel).Stop()
		_, err := e.Select(WithBudget(ctx, NewBudget(endless, 0)), on[0], aSet(expression(1)))
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrPending)
		require.False(t, e.background.costly(question{expression: expression(1)}))
		require.Zero(t, e.queued())
	})
}

// TestSlicesOfAPoolAreAllAskedFor: the slices are judged one after the other, without another call for each.
func TestSlicesOfAPoolAreAllAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var published []*resourceapi.ResourceSlice
		for i := range 3 {
			published = append(published, b.Slice(fmt.Sprint(i)).InPool("p", 1, 3).OnNode("a").Devices(b.Device(fmt.Sprint("d", i)).Attr("i", i)).Obj())
		}
		pool := inventory.FromSlices(published, inventory.Options{}).OnNode(b.Node("a"))[0]
		e := newTimed(t, map[string]time.Duration{expression(1): time.Second})
		work, took := e.pending(t, pool, expression(1))
		require.Equal(t, quickly, took)
		told := make(chan bool)
		work.Notify(func() { close(told) })
		for range told {
		}
		time.Sleep(3 * time.Second)
		selection, _, err := e.ask(t, pool, expression(1))
		require.NoError(t, err)
		require.Equal(t, 3, selection.Matches.Len())
	})
}
