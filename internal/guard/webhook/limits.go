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
	// maxObject is the API server's limit of an object in a request: 3 MiB, twice the limit of etcd.
	maxObject = 3 << 20
	// maxBody has room for a claim before and after the update, and for the rest of the review.
	maxBody = 2*maxObject + 1<<18
	// smallBody is enough for all but the largest claims: a claim with 32 results and 256 consumers takes 60 KiB.
	smallBody = 1 << 18
	// readTimeout limits the time in which a body must arrive.
	readTimeout = 2 * time.Second
	// smallArrivals and largeArrivals bound the requests that arrive at the same time, and smallSlots and largeSlots
	// those in progress. Large requests have their own slots, so small ones never wait for them. All together use at
	// most 400 MiB of memory.
	smallArrivals, smallSlots = 1024, 64
	largeArrivals, largeSlots = 16, 4
)

var (
	// errTooLarge refuses a request before it is read.
	errTooLarge = fmt.Errorf("the request is larger than %d bytes, which no claim can be", maxBody)
	// errTooMany ends the oldest incomplete request when too many arrive.
	errTooMany = errors.New("too many requests came after this one, and it was not there completely")
)

// limits bounds the concurrent requests.
type limits struct{ small, large *class }

// class bounds the requests of one size.
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

// body is a request's body with its slot.
type body struct {
	data  []byte
	class *class
	// keeps is set if the slot is held until the answer.
	keeps bool
}

// decoded must be called after decoding, and done after the answer. One of them releases the slot: a small request
// releases it before it waits for a change, but a large one may stay large after decoding.
func (b body) decoded() {
	if !b.keeps {
		b.class.slots.Release(1)
	}
}

func (b body) done() {
	if b.keeps {
		b.class.slots.Release(1)
	}
}

// read reads the body of a request and waits for a slot. A slow client takes no slot meanwhile, and is the first to
// give up if there are too many.
func (l limits) read(w http.ResponseWriter, r *http.Request) (body, error) {
	if r.ContentLength > maxBody {
		return body{}, errTooLarge
	}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		data, err := l.large.read(w, r)
		return body{data, l.large, true}, err
	}
	data, err := l.small.read(w, r)
	return body{data, l.small, false}, err
}

// read returns a body, and holds a slot unless it fails.
func (c *class) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// Some writers of tests do not support deadlines; the server's do.
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
	_ = controller.SetReadDeadline(time.Time{}) // The deadline would also end later reads.
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return data, nil
}
