package claimevents

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

const (
	// DefaultPerSecond is how many events there are in the long run. An event is a write of about a kilobyte, which
	// stays for an hour (--event-ttl of kube-apiserver): at most 36,000 of ours.
	DefaultPerSecond = 10
	// BurstSeconds is for how many seconds events can be saved up: by default 100, for a group of pods.
	BurstSeconds = 10
	// MaxPerSecond is what client-go's broadcaster of events can take: it drops what comes when 1,000 wait, which
	// is a burst of that.
	MaxPerSecond = 100
)

// tellInterval is how long events that are left out are counted until the log says so.
const tellInterval = 10 * time.Second

// Limit bounds how many events there are. It is safe for concurrent use, and never waits.
type Limit struct {
	mutex     sync.Mutex
	perSecond int
	bucket    flowcontrol.PassiveRateLimiter
	// leftOut are the events that were not sent since the log said so.
	leftOut int
}

// NewLimit makes a limit that lets no event through.
func NewLimit() *Limit { return &Limit{bucket: flowcontrol.NewFakeNeverRateLimiter()} }

// AtLeast raises the limit, if it is lower.
func (l *Limit) AtLeast(perSecond int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if perSecond > l.perSecond {
		l.perSecond, l.bucket = perSecond, flowcontrol.NewTokenBucketPassiveRateLimiter(float32(perSecond), perSecond*BurstSeconds)
	}
}

// allow reports whether an event may be sent. If not, it is counted, and said in the log before long.
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

// tell says how many events were left out.
func (l *Limit) tell(logger klog.Logger) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	logger.V(2).Info("Events about claims were left out because there were too many", "leftOut", l.leftOut, "eventsPerSecond", l.perSecond)
	l.leftOut = 0
}
