package limiter

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func (g *Limiter) insideNow() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.inside
}

// fill adds pods until there is no room.
func fill(g *Limiter) (places []*Slot) {
	for range Limit {
		places = append(places, g.Enter())
	}
	return places
}

// slow sets measurements of slow pods, so that pods outside have a reason to wait.
func slow(g *Limiter) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.measured, g.fastest, g.average = Limit, time.Millisecond, time.Second
}

func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Limiter
		for range Limit {
			require.Zero(t, g.Wait(t.Context()))
			g.Enter()
		}
		require.Equal(t, Patience, g.Wait(t.Context()))
	})
}

// TestLeaving: each pod that leaves makes room, exactly once, for whatever reason it leaves.
func TestLeaving(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*Slot){"done": (*Slot).Done, "waits for something else": (*Slot).Leave} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var g Limiter
				places := fill(&g)
				slow(&g)
				over := g.Enter()
				const pause = Patience / 5
				go func() {
					for _, place := range []*Slot{over, over, places[0]} {
						time.Sleep(pause)
						leave(place)
						slow(&g)
					}
				}()
				require.Equal(t, 3*pause, g.Wait(t.Context()), "there were too many")
				require.Zero(t, g.Wait(t.Context()))
				g.Enter()
				leave(places[0])
				slow(&g)
				require.Equal(t, Patience, g.Wait(t.Context()))
			})
		})
	}
}

// TestNothingIsWritten: a server that does not answer does not stop the scheduler.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Limiter
		places := fill(&g)
		total := time.Duration(0)
		for range 10 * stalled / Patience {
			total += g.Wait(t.Context())
			g.Enter()
		}
		require.Equal(t, stalled, total)

		places[0].Leave()
		require.Equal(t, Patience, g.Wait(t.Context()), "it answers again")
	})
}

// TestIdleIsNoStall: the pause between two bursts does not count.
func TestIdleIsNoStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Limiter
		g.Enter().Done()
		time.Sleep(time.Hour)
		fill(&g)
		require.Equal(t, Patience, g.Wait(t.Context()))
	})
}

// TestSlowAnyway: pods wait if many inside are slower than few, and not if few are as slow.
func TestSlowAnyway(t *testing.T) {
	t.Parallel()
	const write = 10 * Patience
	for name, test := range map[string]struct {
		slower time.Duration
		waits  bool
	}{
		"as fast as one alone":      {write, false},
		"three times as slow":       {3 * write, true},
		"the same, but long before": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var g Limiter
				alone := g.Enter()
				stays := g.Enter()
				time.Sleep(write)
				alone.Done()
				if test.slower == 0 {
					stays.Leave() // An empty gate forgets its measurements.
				}
				for range Limit {
					place := g.Enter()
					time.Sleep(test.slower)
					place.Done()
				}
				fill(&g)
				require.Equal(t, test.waits, g.Wait(t.Context()) > 0)
			})
		})
	}
}

// TestEndOfTheAttempt: no pod waits longer than its context lasts.
func TestEndOfTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Limiter
		fill(&g)
		ctx, cancel := context.WithTimeout(t.Context(), Patience/2)
		defer cancel()
		require.Equal(t, Patience/2, g.Wait(ctx))
	})
}

func TestPlaceThatWasNeverTaken(t *testing.T) {
	t.Parallel()
	var place *Slot
	place.Done()
	place.Leave()
}

// TestManyAtOnce: in a burst of pods the server handles one after the other. All get through, and there are never more
// pods inside than the limit.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			g      Limiter
			server = make(chan struct{}, 1) // A mutex would stop the bubble's clock.
			pods   sync.WaitGroup
			most   int
		)
		for range 20 * Limit {
			g.Wait(t.Context())
			place := g.Enter()
			most = max(most, g.insideNow())
			pods.Go(func() {
				server <- struct{}{}
				time.Sleep(Patience / 10)
				<-server
				place.Done()
			})
		}
		pods.Wait()
		require.Zero(t, g.insideNow())
		require.Equal(t, Limit, most)
	})
}
