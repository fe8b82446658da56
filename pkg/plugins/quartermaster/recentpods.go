package quartermaster

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// recentPods remembers the last pods whose devices were released without being
// used, so that the queueing hints recognise them. It is bounded: an entry is
// needed only until the scheduler has handled the pod's failure.
type recentPods struct {
	mutex sync.Mutex
	known map[types.UID]bool
	order []types.UID
}

const maxRecentPods = 1000

func newRecentPods() *recentPods { return &recentPods{known: make(map[types.UID]bool)} }

func (r *recentPods) add(pod types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case r.known[pod]:
		r.order = slices.DeleteFunc(r.order, func(other types.UID) bool { return other == pod })
	case len(r.order) == maxRecentPods:
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	r.known[pod] = true
	r.order = append(r.order, pod)
}

func (r *recentPods) has(pod types.UID) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.known[pod]
}
