package quartermaster

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// pendingUndos knows the pods of which a failed attempt is still being undone in
// the background. It counts claims: each is undone by itself.
type pendingUndos struct {
	mutex  sync.Mutex
	claims map[types.UID]int // by UID of the pod, never 0
}

func newPendingUndos() *pendingUndos { return &pendingUndos{claims: make(map[types.UID]int)} }

func (p *pendingUndos) begin(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claims[pod]++
}

// end is called once for each begin.
func (p *pendingUndos) end(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claims[pod]--
	if p.claims[pod] == 0 {
		delete(p.claims, pod)
	}
}

func (p *pendingUndos) has(pod types.UID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.claims[pod] > 0
}
