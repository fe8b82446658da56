package limiter

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// server is a model of an API server: it handles as many requests at a time as it has processors, in random order.
type server struct {
	mutex    sync.Mutex
	requests []chan struct{}
	arrived  chan struct{}
	stop     chan struct{}
	// works is the time that a request keeps a processor busy, answers the time after that until the answer.
	works, answers time.Duration
}

// The number of processors and the other values come from the benchmark SharedClaim/burst_100nodes; the times
// approximate its requests.
const (
	processors   = 2
	burst        = 500
	podsPerClaim = 5
	cycleTakes   = time.Millisecond
)

func (s *server) run() {
	for {
		s.mutex.Lock()
		var request chan struct{}
		if n := len(s.requests); n > 0 {
			i := rand.IntN(n)
			request = s.requests[i]
			s.requests = slices.Delete(s.requests, i, i+1)
		}
		s.mutex.Unlock()
		if request == nil {
			select {
			case <-s.arrived:
				continue
			case <-s.stop:
				return
			}
		}
		time.Sleep(time.Duration((0.5 + rand.Float64()) * float64(s.works)))
		time.AfterFunc(s.answers, func() { close(request) })
	}
}

func (s *server) request() {
	request := make(chan struct{})
	s.mutex.Lock()
	s.requests = append(s.requests, request)
	s.mutex.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default: // A signal for each processor suffices.
	}
	<-request
}

// bind sends the requests for a pod: nominated node, finalizer, allocation and reservation, and the binding. The
// requests to its claim wait for the earlier pods with the same claim.
func (s *server) bind(g *Limiter, claim chan struct{}, first bool, written func()) {
	place := g.Enter()
	s.request()
	claim <- struct{}{}
	if first {
		s.request()
	}
	s.request()
	<-claim
	written()
	place.Done()
	s.request()
}

// schedule binds a burst of pods, and returns the total time and the 99th percentile of the attempts' times.
func (s *server) schedule(t *testing.T, gated bool) (all, slowest time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.arrived, s.stop = make(chan struct{}, processors), make(chan struct{})
		for range processors {
			go s.run()
		}
		var (
			g        Limiter
			mutex    sync.Mutex
			attempts []time.Duration
			pods     sync.WaitGroup
			queue    = make(chan int, burst)
			claims   = make([]chan struct{}, burst/podsPerClaim)
		)
		for i := range claims {
			claims[i] = make(chan struct{}, 1)
			queue <- i * podsPerClaim
		}
		begin := time.Now()
		for range burst {
			pod, start := <-queue, time.Now()
			time.Sleep(cycleTakes)
			if gated {
				g.Wait(t.Context())
			}
			first := pod%podsPerClaim == 0
			pods.Go(func() {
				s.bind(&g, claims[pod/podsPerClaim], first, func() {
					for i := 1; first && i < podsPerClaim; i++ {
						queue <- pod + i // They were rejected before: the claim was being allocated.
					}
				})
				mutex.Lock()
				defer mutex.Unlock()
				attempts = append(attempts, time.Since(start))
			})
		}
		pods.Wait()
		all = time.Since(begin)
		slices.Sort(attempts)
		slowest = attempts[burst*99/100]
		close(s.stop)
	})
	return all, slowest
}

// TestBusyServer: attempts are much shorter, and the last pod is bound no later.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	s := server{works: 4500 * time.Microsecond, answers: 5 * time.Millisecond}
	all, slowest := s.schedule(t, false)
	allGated, slowestGated := s.schedule(t, true)
	t.Logf("all within %s, p99 of attempts %s; with the gate %s and %s", all, slowest, allGated, slowestGated)
	require.Less(t, slowestGated, slowest/2)
	require.Less(t, allGated, all+all/8)
}

// TestFarServer: if requests are slow for other reasons, only the first pods wait.
func TestFarServer(t *testing.T) {
	t.Parallel()
	s := server{works: 100 * time.Microsecond, answers: 100 * time.Millisecond}
	all, _ := s.schedule(t, false)
	allGated, _ := s.schedule(t, true)
	t.Logf("all within %s; with the gate %s", all, allGated)
	require.Less(t, allGated, 2*all)
}
