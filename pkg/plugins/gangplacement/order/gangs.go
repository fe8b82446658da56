package order

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// rememberedFor is how long the time of a gang is remembered that has no pods any more. The handlers of the
// queue may be behind: by then no pod of the gang is in it.
const rememberedFor = 10 * time.Minute

// longestStart is how long it may take at the start until everything is known of pods that were there before.
const longestStart = 10 * time.Second

// Gangs knows since when there are gangs, of which only a label of their pods tells. That is when the first of
// their pods was created, as far as known when the gang is compared with others for the first time. From then on it
// does not change, not even if an older pod turns up: the queue is a heap, in which the order must stay.
// Whether there is an object for the gang, and since when, does not matter. It is safe for concurrent use.
type Gangs struct {
	clock clock.PassiveClock
	// synced reports whether all pods were told of that were there at the start.
	synced func() bool
	start  sync.Once

	mutex sync.Mutex
	// known are gangs by "namespace/name".
	known map[string]*gang
	// gone are gangs without pods, those that are without for the longest first.
	gone []gone
}

type gang struct {
	since time.Time
	// fixed is set when the gang was compared with others.
	fixed bool
	pods  int
	// emptied counts how often it has lost its last pod.
	emptied int
}

// gone is a gang that is without pods since a time, unless it has been emptied once more or has got others.
type gone struct {
	name    string
	at      time.Time
	emptied int
}

// Follow makes Gangs that follow the pods of an informer. It fails if the informer was stopped.
func Follow(pods cache.SharedIndexInformer, by clock.PassiveClock) (*Gangs, error) {
	g := &Gangs{clock: by, known: make(map[string]*gang)}
	registration, err := pods.AddEventHandler(informer.Handler(g.change))
	if err != nil {
		return nil, fmt.Errorf("follow pods to sort their gangs in the queue: %w", err)
	}
	g.synced = registration.HasSynced
	return g, nil
}

// Since returns since when there is the gang of a pod. It is quick, because it is asked with each comparison, under
// the lock of the queue. Only at the start of the scheduler it waits for pods that were there before, so that it does not
// depend on which of them the queue gets first. They are told of whether the queue waits or not, and nothing is
// scheduled before.
func (g *Gangs) Since(pod *v1.Pod) time.Time {
	g.start.Do(func() {
		for begun := time.Now(); !g.synced() && time.Since(begun) < longestStart; {
			time.Sleep(time.Millisecond)
		}
	})
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.known[coscheduling.KeyOf(pod)]
	if known == nil {
		// The queue was told of the pod first. It counts when that is told here, or never if that has been and the
		// pod is gone already: then it is forgotten in time.
		known = &gang{since: pod.CreationTimestamp.Time}
		g.known[coscheduling.KeyOf(pod)] = known
		g.leave(coscheduling.KeyOf(pod), known)
	}
	known.fixed = true
	return known.since
}

// change takes into account that a pod has come, is another, or is gone.
func (g *Gangs) change(before, after *v1.Pod) {
	var left, joined string
	if before != nil {
		left = coscheduling.KeyOf(before)
	}
	if after != nil {
		joined = coscheduling.KeyOf(after)
	}
	if left == joined {
		return
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.forget()
	if joined != "" {
		g.join(joined, after.CreationTimestamp.Time)
	}
	if known := g.known[left]; known != nil {
		if known.pods--; known.pods == 0 {
			g.leave(left, known)
		}
	}
}

func (g *Gangs) join(name string, created time.Time) {
	known := g.known[name]
	if known == nil {
		known = &gang{since: created}
		g.known[name] = known
	}
	known.pods++
	if !known.fixed && created.Before(known.since) {
		known.since = created
	}
}

// leave has a gang be forgotten later that has no pods now.
func (g *Gangs) leave(name string, known *gang) {
	known.emptied++
	g.gone = append(g.gone, gone{name: name, at: g.clock.Now(), emptied: known.emptied})
}

// forget drops gangs that have had no pods for long.
func (g *Gangs) forget() {
	for len(g.gone) > 0 && g.clock.Since(g.gone[0].at) >= rememberedFor {
		first := g.gone[0]
		g.gone = g.gone[1:]
		if known := g.known[first.name]; known != nil && known.pods == 0 && known.emptied == first.emptied {
			delete(g.known, first.name)
		}
	}
}
