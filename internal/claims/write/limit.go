package write

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

const (
	// DefaultPerSecond limits events in the long run. An event is a write of about a kilobyte that
	// is stored for an hour (--event-ttl of kube-apiserver), so there are at most 36,000 of them.
	DefaultPerSecond = 10
	// BurstSeconds is the number of seconds for which unused events are saved up: by default 100
	// events, for a group of pods.
	BurstSeconds = 10
	// MaxPerSecond is the capacity of client-go's event broadcaster: it drops events when 1,000
	// wait, which is a burst at this rate.
	MaxPerSecond = 100
)

// tellInterval is the time for which dropped events are counted before the log reports them.
const tellInterval = 10 * time.Second

// Limit is the rate limit of events. It is safe for concurrent use, and never waits.
type Limit struct {
	mutex     sync.Mutex
	perSecond int
	bucket    flowcontrol.PassiveRateLimiter
	// leftOut counts the dropped events that the log has not reported yet.
	leftOut int
}

// NewLimit returns a limit that drops all events.
func NewLimit() *Limit { return &Limit{bucket: flowcontrol.NewFakeNeverRateLimiter()} }

// AtLeast raises the limit, if it is lower.
func (l *Limit) AtLeast(perSecond int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if perSecond > l.perSecond {
		l.perSecond, l.bucket = perSecond, flowcontrol.NewTokenBucketPassiveRateLimiter(float32(perSecond), perSecond*BurstSeconds)
	}
}

// allow reports whether an event may be sent. If not, it counts the event, and the log reports it
// soon.
func (l *Limit) allow(logger klog.Logger) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.bucket.TryAccept() {
		return true
	}
	l.leftOut++
	if l.leftOut == 1 {
		time.AfterFunc(tellInterval, func() { l.tell(logger) })
	}
	return false
}

// tell logs the number of dropped events.
func (l *Limit) tell(logger klog.Logger) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	logger.V(2).Info("Events about claims were left out because there were too many", "leftOut", l.leftOut, "eventsPerSecond", l.perSecond)
	l.leftOut = 0
}
