package allocationlog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// waiting starts a call of wait and returns once it is among the waiters.
func waiting(t *testing.T, p *progress, ctx context.Context, version uint64) <-chan error {
	t.Helper()
	p.mutex.Lock()
	before := len(p.waiters)
	p.mutex.Unlock()
	result := make(chan error, 1)
	go func() { result <- p.wait(ctx, version) }()
	require.Eventually(t, func() bool {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return len(p.waiters) == before+1
	}, timeout, tick)
	return result
}

func TestAwaitEndsWithTheVersionOrALaterOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		happens func(*progress)
		ends    bool
	}{
		"the version":             {func(p *progress) { p.advance(50) }, true},
		"a later one":             {func(p *progress) { p.advance(60) }, true},
		"a list":                  {func(p *progress) { p.restart(50) }, true},
		"a later list":            {func(p *progress) { p.restart(51) }, true},
		"an earlier one":          {func(p *progress) { p.advance(49) }, false},
		"an earlier list":         {func(p *progress) { p.restart(49) }, false},
		"a repetition of the old": {func(p *progress) { p.advance(10) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &progress{}
			p.restart(10)
			ctx, cancel := context.WithCancelCause(context.Background())
			result := waiting(t, p, ctx, 50)
			tc.happens(p)
			stop := errors.New("binding was given up")
			cancel(stop)
			err := <-result
			if tc.ends {
				// It may have noticed the end of the context first, and then looked again.
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, stop)
				require.ErrorContains(t, err, "resourceVersion 50")
			}
			require.Empty(t, p.waiters)
		})
	}
}

func TestAwaitWhatIsThereAlready(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := newWorld(t)
	w.write(50, ours("x", "gpu-0"))
	require.NoError(t, w.Await(ctx, "50"))
	require.NoError(t, w.Await(ctx, "7"))
	require.ErrorIs(t, w.Await(ctx, "51"), context.Canceled)
	require.ErrorContains(t, w.Await(ctx, "x51"), `"x51"`)
	require.Error(t, w.Await(ctx, ""))
	require.Error(t, w.Await(ctx, "99999999999999999999999999"))
}

// Waiting for a claim that gets deleted meanwhile ends as well.
func TestAwaitOfADeletedClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	result := waiting(t, &w.progress, context.Background(), 50)
	w.remove(60, ours("x", "gpu-0"))
	require.NoError(t, <-result)
}

// Hundreds of goroutines wait, some give up, and all others are woken at the right time.
func TestManyWaiters(t *testing.T) {
	t.Parallel()
	p := &progress{}
	p.restart(1)
	random := rand.New(rand.NewPCG(1, 2))
	const waiters, last = 500, 300
	var wg sync.WaitGroup
	for i := range waiters {
		version := 2 + random.Uint64N(last-1)
		ctx, cancel := context.WithCancel(context.Background())
		wg.Go(func() {
			defer cancel()
			switch err := p.wait(ctx, version); {
			case err == nil && p.upTo() < version:
				t.Errorf("woken at %d, waited for %d", p.upTo(), version)
			case err != nil && i%5 != 0:
				t.Errorf("waiter %d: %v", i, err)
			}
		})
		if i%5 == 0 {
			go cancel()
		}
	}
	for version := range uint64(last + 1) {
		p.advance(version)
	}
	wg.Wait()
	require.Empty(t, p.waiters)
}
