package gangplacement

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// rememberedFor is the time after which a gang without pods is forgotten. The queue's handlers may be behind; after
// that time the queue has no pod of the gang.
const rememberedFor = 10 * time.Minute

// longestStart limits the wait at the start for the pods that existed before.
const longestStart = 10 * time.Second

// Gangs holds the start times of gangs that are known only by a label of their pods. The start time is the earliest
// creation time of the pods that are known when the gang is first compared with others. After that it does not change,
// not even if an older pod appears: the queue is a heap, in which the order must not change. A gang's PodGroup object,
// if any, does not matter. Gangs is safe for concurrent use.
type Gangs struct {
	clock clock.PassiveClock
	// synced reports whether the handler has received all pods that existed at the start.
	synced func() bool
	start  sync.Once

	mutex sync.Mutex
	// known holds the gangs by "namespace/name".
	known map[string]*gang
	// gone holds the gangs without pods, in the order in which they lost their last pod.
	gone []gone
}

type gang struct {
	since time.Time
	// fixed is set once the gang was compared with others.
	fixed bool
	pods  int
	// emptied counts how often the gang has lost its last pod.
	emptied int
}

// A gone is a gang without pods since a time, unless it has been emptied again or has new pods.
type gone struct {
	name    string
	at      time.Time
	emptied int
}

// Follow returns Gangs that follow the pods of an informer. It fails if the informer was stopped.
func Follow(pods cache.SharedIndexInformer, by clock.PassiveClock) (*Gangs, error) {
	g := &Gangs{clock: by, known: make(map[string]*gang)}
	registration, err := informer.Follow(pods, func(e informer.Event[v1.Pod]) { g.change(e.Before, e.After) })
	if err != nil {
		return nil, fmt.Errorf("follow pods to sort their gangs in the queue: %w", err)
	}
	g.synced = registration.HasSynced
	return g, nil
}

// Since returns the start time of a pod's gang. It is fast, because each comparison calls it, under the lock of the
// queue. Only the first call waits for the pods that existed at the start, so that the result does not depend on the
// order in which the queue receives them. The informer delivers them even while the queue waits, and no pod is
// scheduled before.
func (g *Gangs) Since(pod *v1.Pod) time.Time {
	g.start.Do(func() {
		for begun := time.Now(); !g.synced() && time.Since(begun) < longestStart; {
			time.Sleep(time.Millisecond)
		}
	})
	g.mutex.Lock()
	defer g.mutex.Unlock()
	known := g.known[crd.KeyOf(pod)]
	if known == nil {
		// The queue received the pod first. The pod counts once Gangs receives it; if it is gone already, it never
		// counts, and the gang is forgotten later.
		known = &gang{since: pod.CreationTimestamp.Time}
		g.known[crd.KeyOf(pod)] = known
		g.leave(crd.KeyOf(pod), known)
	}
	known.fixed = true
	return known.since
}

// change handles the creation, change or deletion of a pod.
func (g *Gangs) change(before, after *v1.Pod) {
	var left, joined string
	if before != nil {
		left = crd.KeyOf(before)
	}
	if after != nil {
		joined = crd.KeyOf(after)
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

// leave schedules a gang without pods to be forgotten.
func (g *Gangs) leave(name string, known *gang) {
	known.emptied++
	g.gone = append(g.gone, gone{name: name, at: g.clock.Now(), emptied: known.emptied})
}

// forget removes gangs that have had no pods for rememberedFor.
func (g *Gangs) forget() {
	for len(g.gone) > 0 && g.clock.Since(g.gone[0].at) >= rememberedFor {
		first := g.gone[0]
		g.gone = g.gone[1:]
		if known := g.known[first.name]; known != nil && known.pods == 0 && known.emptied == first.emptied {
			delete(g.known, first.name)
		}
	}
}
