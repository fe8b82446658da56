package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxObject is what the API server accepts of an object in a request: 3 MiB, twice what
	// etcd stores of one.
	maxObject = 3 << 20
	// maxBody has room for a claim before and after the update, and what is said about them.
	maxBody = 2*maxObject + 1<<18
	// smallBody is more than all but the strangest claims need: one with 32 results and 256
	// consumers takes 60 KiB.
	smallBody = 1 << 18
	// readTimeout is how long a body may take to arrive.
	readTimeout = 2 * time.Second
	// smallArrivals and largeArrivals are how many requests may be arriving at a time; smallSlots and
	// largeSlots are how many are worked on. Large ones have their own, so that small ones
	// never wait for them. All together take no more memory than 400 MiB.
	smallArrivals, smallSlots = 1024, 64
	largeArrivals, largeSlots = 16, 4
)

var (
	// errTooLarge is why a request is not read.
	errTooLarge = fmt.Errorf("the request is larger than %d bytes, which no claim can be", maxBody)
	// errTooMany is why one is not answered.
	errTooMany = errors.New("too many requests came after this one, and it was not there completely")
)

// limits bounds what there is at a time.
type limits struct{ small, large *class }

// class are requests of some size.
type class struct {
	maxBody int64
	timeout time.Duration
	arrivals
	slots *semaphore.Weighted
}

func newLimits() limits {
	return limits{
		small: &class{smallBody, readTimeout, arrivals{most: smallArrivals}, semaphore.NewWeighted(smallSlots)},
		large: &class{maxBody, readTimeout, arrivals{most: largeArrivals}, semaphore.NewWeighted(largeSlots)},
	}
}

// body is a request's body and the slot in which to work on it.
type body struct {
	data []byte
	// decoded is called when the data is not needed any more, and done when the request is
	// answered. One of them gives the slot back: that of a small request is free for others while it
	// waits for something, and a large one may be large also when it has been decoded.
	decoded, done func()
}

// read reads the body of a request and waits for a slot. Whoever sends slowly takes none from
// the others meanwhile, and is the first to go if too many do.
func (l limits) read(w http.ResponseWriter, r *http.Request) (body, error) {
	if r.ContentLength > maxBody {
		return body{}, errTooLarge
	}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		data, err := l.large.read(w, r)
		return body{data, func() {}, l.large.release}, err
	}
	data, err := l.small.read(w, r)
	return body{data, l.small.release, func() {}}, err
}

// read returns a body, and a slot unless there is an error.
func (c *class) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// Not all writers of tests can do this; the server's can.
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Now().Add(c.timeout))
	arrival := c.begin(func() {
		cancel(errTooMany)
		_ = controller.SetReadDeadline(time.Unix(1, 0))
	})
	defer c.end(arrival)
	data, err := io.ReadAll(io.LimitReader(r.Body, c.maxBody+1))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("read the request: %w", err)
	case int64(len(data)) > c.maxBody:
		return nil, errTooLarge
	}
	_ = controller.SetReadDeadline(time.Time{}) // It would end what comes now as well.
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return data, nil
}

func (c *class) release() { c.slots.Release(1) }
