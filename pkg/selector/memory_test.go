package selector

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// In these tests, many expressions are evaluated with little memory.

// TestVerdictsAreForgottenWhileTheyAreUsed: a caller keeps its selection, and a repeated question gets the same answer.
func TestVerdictsAreForgottenWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	_, on := pools(t, 30, 8)
	e := NewEvaluator(cel.NewCache(100, cel.Features{}))
	e.RememberIn(memo.New(20_000))
	e.matches = func(_ context.Context, program *cel.CompilationResult, device cel.Device) (bool, error) {
		if len(program.Expression)%2 == 0 {
			return false, errors.New("fails: " + program.Expression)
		}
		return *device.Attributes["node"].IntValue%2 == 0, nil
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 2000 {
				expression, pool := expression(i*i%50), on[i%len(on)]
				set := aSet(expression)
				selection, err := e.Select(t.Context(), pool, set)
				switch {
				case err != nil:
					t.Error(err)
				case len(expression)%2 == 0:
					for device := range 8 {
						if !selection.Failed.Has(device) || set.Error(pool, selection, device).Err.Error() != "CEL runtime error: fails: "+expression {
							t.Errorf("%s: device %d", expression, device)
						}
					}
				case selection.Matches.Len() != 8*(1-i%len(on)%2) || !selection.Failed.Empty():
					t.Errorf("%s on %d: %v", expression, i%len(on), selection.Matches)
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, e.memory.Taken(), 20_000)
	require.Greater(t, e.Evaluations(), uint64(2*50*30*8), "verdicts were forgotten")
}

// TestWhatIsForgottenIsFoundInTheEnd: verdicts from the background are available when the waiting pod is
// tried again, regardless of other use of the memory, and even if they do not fit into it. Otherwise the pod
// would be tried for ever.
func TestWhatIsForgottenIsFoundInTheEnd(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]int{"the pod's fit": 30_000, "not even the pod's fit": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, on := pools(t, 50, 1)
				e := newTimed(t, map[string]time.Duration{expression(1): 300 * time.Millisecond})
				e.RememberIn(memo.New(bound))
				others := 100
				rounds := 0
				for pending := true; pending; rounds++ {
					require.Less(t, rounds, 60, "tried again and again")
					var work *Work
					for _, pool := range on {
						if _, _, err := e.ask(t, pool, expression(1)); err != nil {
							work = pendingWork(t, err)
						}
					}
					if pending = work != nil; !pending {
						break
					}
					told := make(chan bool)
					if _, ok := work.Notify(func() { close(told) }); ok {
						<-told
					}
					for range 50 { // Others ask before the pod is tried again.
						others++
						for _, pool := range on {
							_, err := e.Select(t.Context(), pool, aSet(expression(others)))
							require.NoError(t, err)
						}
					}
				}
				require.Less(t, e.begun(expression(1)), 70, "each device once, and some that were interrupted")
				time.Sleep(dropAfter)
				_, err := e.Select(t.Context(), on[0], aSet(expression(others+1)))
				require.NoError(t, err)
				require.LessOrEqual(t, e.memory.Taken(), bound, "nothing is held any longer")
			})
		})
	}
}

func pendingWork(t *testing.T, err error) *Work {
	t.Helper()
	var pending *Pending
	require.ErrorAs(t, err, &pending)
	return pending.Work
}

// begun returns the number of devices for which an expression was begun.
func (e *timed) begun(expression string) int {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	n := 0
	for _, begun := range e.order {
		if begun == expression {
			n++
		}
	}
	return n
}

// TestAFullQueueIsNotInTheWay: one tenant fills the queue with slow questions; others get into it nevertheless.
func TestAFullQueueIsNotInTheWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 3, 100)
		takes := make(map[string]time.Duration)
		for i := range maxWorks + 10 {
			takes[expression(i)] = time.Second
		}
		e := newTimed(t, takes)
		told := 0
		for i := range maxWorks + 10 {
			work, _ := e.pending(t, on[0], expression(i))
			leave, ok := work.Notify(func() { told++ })
			require.True(t, ok)
			defer leave()
		}
		require.Equal(t, maxWorks, e.queued())
		_, err := e.Select(WithBudget(t.Context(), NewBudget(0, 0)), on[1], aSet(expression(1000)))
		work := pendingWork(t, err)
		require.Equal(t, expression(1000), work.question.expression)
		start, done := time.Now(), make(chan bool)
		_, ok := work.Notify(func() { close(done) })
		require.True(t, ok)
		<-done
		require.LessOrEqual(t, time.Since(start), 2*time.Second, "the device that was begun")
		require.Positive(t, told, "who had to make room is told")
		e.mutex.Lock()
		clear(e.takes)
		e.mutex.Unlock()
	})
}

// late is a context with a deadline that does not close its channel.
type late struct {
	context.Context
	deadline time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

func (l late) Err() error {
	if time.Now().Before(l.deadline) {
		return l.Context.Err()
	}
	return context.DeadlineExceeded
}

// TestADeadlineLimitsTheBudget: no caller waits beyond its deadline. The evaluation goes on in the
// background, so that the verdict is known the next time.
func TestADeadlineLimitsTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 1, 1)
		e := newTimed(t, map[string]time.Duration{expression(1): 15 * time.Millisecond})
		e.deaf = true
		for _, deadline := range []time.Duration{5 * time.Millisecond, 0} {
			start := time.Now()
			ctx := late{t.Context(), start.Add(deadline)}
			_, err := e.Select(WithBudget(ctx, NewBudget(endless, 0)), on[0], aSet(expression(1)))
			require.Equal(t, deadline, time.Since(start))
			if deadline == 0 {
				require.ErrorIs(t, err, context.DeadlineExceeded, "nothing was begun")
				require.NotErrorIs(t, err, ErrPending)
				continue
			}
			require.ErrorIs(t, err, ErrPending)
			require.False(t, e.background.costly(question{expression: expression(1)}), "it was the deadline that was too soon")
		}
		time.Sleep(time.Second)
		_, err := e.Select(WithBudget(late{t.Context(), time.Now().Add(time.Millisecond)}, NewBudget(endless, 0)), on[0], aSet(expression(1)))
		require.NoError(t, err)
	})
}

// TestDerivedAttributesHaveABudget: slow derivations go to the background like slow selectors, and their
// results are kept.
func TestDerivedAttributesHaveABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, on := pools(t, 2, 4)
		e := newTimed(t, nil)
		e.derive = func(ctx context.Context, _ *cel.CompilationResult, device cel.Device) (*resourceapi.DeviceAttribute, error) {
			time.Sleep(time.Second) // It cannot be interrupted.
			node := *device.Attributes["node"].IntValue
			if node == 1 {
				return nil, errors.New("not for this node")
			}
			return &resourceapi.DeviceAttribute{IntValue: &node}, nil
		}
		derive := func(pool *inventory.NodePool) (*resourceapi.DeviceAttribute, error) {
			return e.Derive(WithBudget(t.Context(), NewBudget(2*quickly, 0)), &pool.Devices[3], "1")
		}
		start := time.Now()
		for _, pool := range on {
			_, err := derive(pool)
			require.ErrorIs(t, err, ErrPending)
			require.ErrorContains(t, err, "the expression takes long to evaluate on the devices of this node")
		}
		require.Equal(t, quickly, time.Since(start), "the second time, it is known to take long")
		_, err := derive(on[0])
		told := make(chan bool, 100)
		_, ok := pendingWork(t, err).Notify(func() { told <- true })
		require.True(t, ok)
		<-told
		time.Sleep(10 * time.Second)
		start = time.Now()
		attribute, err := derive(on[0])
		require.NoError(t, err)
		require.Zero(t, *attribute.IntValue)
		_, err = derive(on[1])
		require.EqualError(t, err, "CEL runtime error: not for this node")
		require.Zero(t, time.Since(start))
		// A selector with the same text is a different question.
		require.False(t, e.knows(on[0], "1"))
	})
}

// TestErrorsWithATextOfTheirOwn: an expression that fails differently on each device takes little more memory
// than one that fails everywhere in the same way.
func TestErrorsWithATextOfTheirOwn(t *testing.T) {
	t.Parallel()
	_, on := pools(t, 300, 8)
	taken := func(text func() string) int {
		e := NewEvaluator(cel.NewCache(1, cel.Features{}))
		e.RememberIn(memo.New(1 << 30))
		e.matches = func(context.Context, *cel.CompilationResult, cel.Device) (bool, error) {
			return false, errors.New(text())
		}
		for _, pool := range on {
			_, err := e.Select(t.Context(), pool, aSet("1 == 1"))
			require.NoError(t, err)
		}
		return e.memory.Taken()
	}
	n := 0
	own := taken(func() string { n++; return fmt.Sprintf("%d %05000d", n, 0) })
	require.Less(t, own, taken(func() string { return "same" })+200_000)
}

// TestExpressionsDoNotFillTheMemory: each pod has a different expression, half of the expressions fail, and
// no two nodes have the same devices.
func TestExpressionsDoNotFillTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("too long for make test: 150,000 verdicts")
	}
	const bound = 10 << 20
	_, on := pools(t, 500, 8)
	e := NewEvaluator(cel.NewCache(1, cel.Features{}))
	e.RememberIn(memo.New(bound))
	e.matches = func(_ context.Context, program *cel.CompilationResult, device cel.Device) (bool, error) {
		if number, _ := strconv.Atoi(strings.Fields(program.Expression)[0]); number%2 == 0 {
			return false, fmt.Errorf("no such key: %s", program.Expression)
		}
		return *device.Attributes["node"].IntValue%2 == 0, nil
	}
	before := heapBytes()
	for i := range 300 {
		for _, pool := range on {
			_, err := e.Select(t.Context(), pool, aSet(expression(i)))
			require.NoError(t, err)
		}
	}
	require.Less(t, heapBytes()-before, bound+bound/2)
	runtime.KeepAlive(e)
	runtime.KeepAlive(on)
}

func heapBytes() int {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
