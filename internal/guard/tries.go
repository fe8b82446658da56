package guard

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxPause is how long it takes at most until something that has failed is tried again.
const maxPause = 30 * time.Second

// tries are the attempts to fence a claim for one approval. The zero value is before the first one. It is
// safe for concurrent use.
type tries struct {
	mutex sync.Mutex
	// again is when to try again, after pause; both are zero if nothing has failed.
	again time.Time
	pause time.Duration
}

// due reports whether it is time for an attempt.
func (t *tries) due() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return !time.Now().Before(t.again)
}

// failed notes that an attempt has failed: whatever is against it probably is so the next time as
// well, and others wait for their turn. Another write to the claim is not, and ends the approval.
func (t *tries) failed(err error) {
	if apierrors.IsConflict(err) {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.pause = min(max(sweepInterval, 2*t.pause), maxPause)
	t.again = time.Now().Add(t.pause)
}
