package guard

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// An approval that is never stored blocks devices until its claim is fenced. API servers store reviewed writes within
// milliseconds. But if another webhook refuses the write, or if the client of the guard is not an API server, this
// can repeat endlessly. So the approvals of each namespace may block devices only for a share of the time.
const (
	// unstoredShare is the time, as a multiple of the blocked time, that earns it back.
	unstoredShare = 10
	// unstoredAtOnce is the blocked time that a namespace may use after a long time without any.
	unstoredAtOnce = 5 * time.Second
	// longestPause limits the pause of a namespace that has used more. It equals the longest time that a claim that
	// cannot be fenced blocks devices, with the default of --request-timeout.
	longestPause = time.Minute
	// manyNamespaces is the number of namespaces from which on those with nothing to earn back are forgotten.
	manyNamespaces = 1000
)

// unstored tracks for how long approvals have blocked devices in vain, by namespace. The zero value is empty. It is
// safe for concurrent use.
type unstored struct {
	mutex       sync.Mutex
	byNamespace map[string]used
}

// used is the blocked time of a namespace.
type used struct {
	// counted is the end of the counted time: concurrent approvals count once.
	counted time.Time
	// earned is the time when all blocked time is earned back.
	earned time.Time
}

// add counts an approval that was never stored.
func (u *unstored) add(namespace string, from, to time.Time) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.byNamespace == nil {
		u.byNamespace = make(map[string]used)
	}
	if len(u.byNamespace) >= manyNamespaces {
		maps.DeleteFunc(u.byNamespace, func(_ string, of used) bool { return of.earned.Before(to) })
	}
	of := u.byNamespace[namespace]
	if from.Before(of.counted) {
		from = of.counted
	}
	if !from.Before(to) {
		return
	}
	if of.earned.Before(to) {
		of.earned = to
	}
	of.counted, of.earned = to, of.earned.Add(unstoredShare*to.Sub(from))
	if most := to.Add(unstoredShare*unstoredAtOnce + longestPause); of.earned.After(most) {
		of.earned = most
	}
	u.byNamespace[namespace] = of
}

// pause returns the time until the guard approves requests of a namespace again.
func (u *unstored) pause(namespace string, now time.Time) time.Duration {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return max(0, u.byNamespace[namespace].earned.Add(-unstoredShare*unstoredAtOnce).Sub(now))
}

// overused denies requests of a namespace that has used up its share.
func (b *Book) overused(r *Request) (answer Answer, done bool) {
	pause := b.unstored.pause(r.Claim.Namespace, time.Now())
	if pause == 0 {
		return Answer{}, false
	}
	return Answer{Kind: Denied, Reason: fmt.Sprintf(
		"claim %s was to be allocated, but earlier allocations that the guard allowed for claims of its namespace were not stored, and blocked devices for too long; "+
			"try again in %s, and see what refuses these writes, or who asks the guard and is no API server", r.Claim, pause.Round(time.Second))}, true
}
