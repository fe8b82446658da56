package nodes

import (
	"context"
	"time"
)

// After returns a context that ends after timeout. Its Done channel does not close then; see limited.
func After(ctx context.Context, timeout time.Duration) context.Context {
	return &limited{Context: ctx, deadline: time.Now().Add(timeout)}
}

// limited is a context that ends after a deadline. Its Done channel does not close at the deadline: the search polls
// Err, and waits long for nothing else. In return it needs no timer, and no lock that all nodes share.
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
