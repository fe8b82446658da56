package webhook

import (
	"container/list"
	"context"
	"sync"
)

// arrivals holds the requests that have not arrived completely. If there are too many, the oldest one must give up:
// API servers send theirs within milliseconds. The zero value is empty and needs most. It is safe for concurrent use.
type arrivals struct {
	// most bounds the number of requests.
	most int

	mutex sync.Mutex
	byAge list.List // of *arrival, the oldest one first
}

// arrival is a request that has not arrived completely.
type arrival struct {
	giveUp context.CancelFunc
	place  *list.Element // nil if it had to give up
}

// begin adds a request. giveUp is called before end if there are too many, and must not call back.
func (a *arrivals) begin(giveUp context.CancelFunc) *arrival {
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

// end removes a request that has arrived or failed.
func (a *arrivals) end(ended *arrival) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if ended.place != nil {
		a.byAge.Remove(ended.place)
	}
}
