// Package deadline makes contexts with a deadline that cost nothing.
package deadline

import (
	"context"
	"time"
)

// After returns a context that has ended some time from now. See limited for what it does not do.
func After(ctx context.Context, timeout time.Duration) context.Context {
	return &limited{Context: ctx, deadline: time.Now().Add(timeout)}
}

// limited is a context that has ended after a deadline. Its channel does not tell: the
// search asks for Err from time to time, and for nothing else does it wait for long. In
// return it needs no timer, and no lock that all nodes share.
type limited struct {
	context.Context
	deadline time.Time
}

func (l *limited) Deadline() (time.Time, bool) {
	if outer, ok := l.Context.Deadline(); ok && outer.Before(l.deadline) {
		return outer, true
	}
	return l.deadline, true
}

func (l *limited) Err() error {
	if err := l.Context.Err(); err != nil {
		return err
	}
	if time.Now().Before(l.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}
