package commit

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// pending counts, by pod, the claims that are being released in the background, and the attempts that have begun. Each
// claim is released independently. A pod that waits is never in both: a release would take away what the attempt relies on.
type pending struct {
	mutex  sync.Mutex
	claims map[types.UID]int // by UID of the pod, never 0
	tried  map[types.UID]int // by UID of the pod, never 0
	writes map[types.UID]int // the attempts of these that have begun to write, by UID of the pod, never 0
}

// begin is called for claims of an attempt, before that ends.
func (p *pending) begin(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claims = count(p.claims, pod, 1)
}

// beginUnlessTried does the same as begin, unless an attempt for the pod has begun; then it returns false.
func (p *pending) beginUnlessTried(pod types.UID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.tried[pod] > 0 {
		return false
	}
	p.claims = count(p.claims, pod, 1)
	return true
}

// end is called once for each begin.
func (p *pending) end(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claims = count(p.claims, pod, -1)
}

func (p *pending) has(pod types.UID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.claims[pod] > 0
}

// tries is called with 1 when an attempt for the pod begins, and with -1 when it ends.
func (p *pending) tries(pod types.UID, change int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.tried = count(p.tried, pod, change)
}

func (p *pending) isTried(pod types.UID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.tried[pod] > 0
}

// writing is called with 1 when an attempt begins to write claims, and with -1 when it ends.
func (p *pending) writing(pod types.UID, change int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.writes = count(p.writes, pod, change)
}

func (p *pending) hasWritten(pod types.UID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.writes[pod] > 0
}

// count changes a counter of a pod, and returns the map, which it makes if there is none.
func count(of map[types.UID]int, pod types.UID, change int) map[types.UID]int {
	if of == nil {
		of = make(map[types.UID]int)
	}
	if of[pod] += change; of[pod] == 0 {
		delete(of, pod)
	}
	return of
}
