package guard

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// An approval of which nothing comes keeps devices from everybody until the claim is fenced. API servers store what they
// ask about within milliseconds. Where another webhook refuses it, and where somebody asks who is no API server, that goes on
// and on. So all claims of a namespace together have a share of the time for it.
const (
	// unstoredShare is how many times as long it takes to earn time as to use it.
	unstoredShare = 10
	// unstoredAtOnce is how much a namespace has that has not used any for long.
	unstoredAtOnce = 5 * time.Second
	// longestPause is what a namespace has to wait at most when it has used more. That is as long as a claim keeps devices that
	// cannot be fenced, with the default of --request-timeout.
	longestPause = time.Minute
	// manyNamespaces are so many that those with nothing to earn back are forgotten.
	manyNamespaces = 1000
)

// unstored is how long approvals have kept devices for nothing, by namespace. The zero value has none. It is safe for
// concurrent use.
type unstored struct {
	mutex       sync.Mutex
	byNamespace map[string]used
}

// used is what a namespace has used.
type used struct {
	// counted is until when it was counted: what is kept by several approvals at the same time counts once.
	counted time.Time
	// earned is when all of it is earned back.
	earned time.Time
}

// add counts an approval of which nothing came.
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

// pause is how long nothing is to be approved for a namespace.
func (u *unstored) pause(namespace string, now time.Time) time.Duration {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return max(0, u.byNamespace[namespace].earned.Add(-unstoredShare*unstoredAtOnce).Sub(now))
}

// overused denies what is asked for a namespace that has used its share.
func (b *Book) overused(r *Request) (answer Answer, done bool) {
	pause := b.unstored.pause(r.Claim.Namespace, time.Now())
	if pause == 0 {
		return Answer{}, false
	}
	return Answer{Kind: Denied, Reason: fmt.Sprintf(
		"claim %s was to be allocated, but what was allowed for claims of its namespace was not stored, and has kept devices from others for too long; "+
			"try again in %s, and see what refuses these writes, or who asks the guard and is no API server", r.Claim, pause.Round(time.Second))}, true
}
