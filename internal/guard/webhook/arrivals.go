package webhook

import (
	"container/list"
	"sync"
)

// arrivals are requests that are not there completely. If there are too many, the one that
// has taken longest has to give up: an API server's takes milliseconds. The zero value, but for most,
// has none. It is safe for concurrent use.
type arrivals struct {
	// most is how many there may be.
	most int

	mutex sync.Mutex
	byAge list.List // of *arrival, the oldest one first
}

// arrival is a request that is not there completely.
type arrival struct {
	giveUp func()
	place  *list.Element // nil if it had to give up
}

// begin adds one. giveUp is called before end if there are too many, and must not call back.
func (a *arrivals) begin(giveUp func()) *arrival {
	added := &arrival{giveUp: giveUp}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.byAge.Len() >= a.most {
		oldest := a.byAge.Remove(a.byAge.Front()).(*arrival)
		oldest.place = nil
		oldest.giveUp()
	}
	added.place = a.byAge.PushBack(added)
	return added
}

// end is called when the request is there, or does not come.
func (a *arrivals) end(ended *arrival) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if ended.place != nil {
		a.byAge.Remove(ended.place)
	}
}
