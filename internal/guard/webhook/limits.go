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
	// smallSlots and largeSlots are how many requests are worked on at a time. Large ones have
	// slots of their own, so that small ones never wait for them: 4 times maxBody is all the
	// memory that they can take.
	smallSlots = 64
	largeSlots = 4
)

// limits bounds what is worked on at a time.
type limits struct{ small, large *semaphore.Weighted }

func newLimits() limits {
	return limits{small: semaphore.NewWeighted(smallSlots), large: semaphore.NewWeighted(largeSlots)}
}

// errTooLarge is why a request is not read.
var errTooLarge = fmt.Errorf("the request is larger than %d bytes, which no claim can be", maxBody)

// body is a request's body and the slot in which to work on it, which has to be given back.
type body struct {
	data    []byte
	release func()
}

// read reads the body of a request. Whoever sends slowly takes no slot from the others meanwhile,
// unless he sends something large.
func (l limits) read(w http.ResponseWriter, r *http.Request) (body, error) {
	ctx := r.Context()
	if r.ContentLength > maxBody {
		return body{}, errTooLarge
	}
	// Not all writers of tests can do this; the server's can.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		return readLarge(ctx, r.Body, l.large)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, smallBody+1))
	if err != nil {
		return body{}, fmt.Errorf("read the request: %w", err)
	}
	if err := l.small.Acquire(ctx, 1); err != nil {
		return body{}, fmt.Errorf("too many requests at a time: %w", err)
	}
	return body{data, func() { l.small.Release(1) }}, nil
}

// readLarge reads a body while it has one of the slots.
func readLarge(ctx context.Context, from io.Reader, slots *semaphore.Weighted) (body, error) {
	if err := slots.Acquire(ctx, 1); err != nil {
		return body{}, fmt.Errorf("too many large requests at a time: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = errTooLarge
	}
	if err != nil {
		slots.Release(1)
		return body{}, errors.Join(errors.New("read a large request"), err)
	}
	return body{data, func() { slots.Release(1) }}, nil
}
