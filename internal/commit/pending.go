package commit

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// pending counts, by pod, the claims of failed attempts that are still being released in the
// background. Each claim is released independently.
type pending struct {
	mutex  sync.Mutex
	claims map[types.UID]int // by UID of the pod, never 0
}

func (p *pending) begin(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.claims == nil {
		p.claims = make(map[types.UID]int)
	}
	p.claims[pod]++
}

// end is called once for each begin.
func (p *pending) end(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claims[pod]--
	if p.claims[pod] == 0 {
		delete(p.claims, pod)
	}
}

func (p *pending) has(pod types.UID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.claims[pod] > 0
}
