package informer

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// told is a store that tells a Liveness of lists.
type told struct {
	cache.Store
	*Liveness
}

func (s told) Replace(objects []any, version string) error {
	defer s.Replaced()
	return s.Store.Replace(objects, version)
}

// server is the source of a reflector.
type server struct {
	streams bool // lists as events
	down    atomic.Bool
	hangs   chan struct{} // nil: it answers
	watches chan *watch.RaceFreeFakeWatcher
	asked   []metav1.ListOptions
}

func (s *server) source() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			if s.down.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}}, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if s.hangs != nil {
				<-s.hangs
			}
			s.asked = append(s.asked, options)
			if s.down.Load() || options.SendInitialEvents != nil && !s.streams {
				return nil, syscall.ECONNREFUSED
			}
			w := watch.NewRaceFreeFake()
			s.watches <- w
			return w, nil
		},
	}
}

// semantics says whether a source can list as events.
type semantics struct {
	*cache.ListWatch
	unsupported bool
}

func (s semantics) IsWatchListSemanticsUnSupported() bool { return s.unsupported }

func (s *server) run(t *testing.T) *Liveness {
	s.watches = make(chan *watch.RaceFreeFakeWatcher, 100)
	liveness := &Liveness{}
	store := told{cache.NewStore(cache.MetaNamespaceKeyFunc), liveness}
	reflector := cache.NewReflectorWithOptions(semantics{liveness.Observe(s.source()), !s.streams}, &v1.Pod{}, store, cache.ReflectorOptions{Backoff: Backoff()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		reflector.RunWithContext(t.Context())
	}()
	t.Cleanup(func() { <-done })
	synctest.Wait()
	return liveness
}

// listed ends the list of a watch that sends all objects first.
func listed(w *watch.RaceFreeFakeWatcher) {
	w.Action(watch.Bookmark, &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	synctest.Wait()
}

func requireClosed(t *testing.T, l *Liveness, want bool) time.Time {
	t.Helper()
	synctest.Wait()
	closed, opened := l.Interrupted()
	require.Equal(t, want, closed)
	return opened
}

// TestLiveness: a watch is closed from its end until another one is open; if that sends all objects first, until these are
// in the store.
func TestLiveness(t *testing.T) {
	t.Parallel()
	for name, streams := range map[string]bool{"lists": false, "lists as events": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{streams: streams}
				l := s.run(t)
				w := <-s.watches
				if streams {
					listed(w)
				}
				require.Zero(t, requireClosed(t, l, false), "it was never closed")

				s.down.Store(true)
				w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
				requireClosed(t, l, true)
				time.Sleep(time.Minute)
				requireClosed(t, l, true)

				s.down.Store(false)
				time.Sleep(10 * time.Second)
				w = <-s.watches
				if streams {
					requireClosed(t, l, true)
					listed(w)
				}
				opened := requireClosed(t, l, false)
				require.WithinDuration(t, time.Now(), opened, 10*time.Second)

				time.Sleep(2 * time.Second)
				w.Stop() // The next one goes on where it was, at once.
				require.Equal(t, opened, requireClosed(t, l, false))
				require.Nil(t, s.asked[len(s.asked)-1].SendInitialEvents)
			})
		})
	}
}

// TestListWithoutWatch: a list alone shows no changes.
func TestListWithoutWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		l := s.run(t)
		w := <-s.watches
		s.hangs = make(chan struct{})
		w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
		time.Sleep(time.Minute)
		requireClosed(t, l, true)
		close(s.hangs)
		requireClosed(t, l, false)
	})
}
