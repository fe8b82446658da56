package guard

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxPause is the longest pause between two attempts.
const maxPause = 30 * time.Second

// tries tracks the attempts to fence a claim for one approval. The zero value means that none was made. It is safe
// for concurrent use.
type tries struct {
	mutex sync.Mutex
	// again is the time of the next attempt, after pause; both are zero unless an attempt failed.
	again time.Time
	pause time.Duration
}

// due reports whether it is time for an attempt.
func (t *tries) due() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return !time.Now().Before(t.again)
}

// failed records a failed attempt: its cause probably persists, and other claims wait. A conflict does not count: it
// shows another write to the claim, which ends the approval.
func (t *tries) failed(err error) {
	if apierrors.IsConflict(err) {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.pause = min(max(sweepInterval, 2*t.pause), maxPause)
	t.again = time.Now().Add(t.pause)
}
