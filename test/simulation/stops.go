package simulation

import (
	"context"
	"time"
)

// Freeze stops the process, as SIGSTOP does: everything that is sent to it waits, and requests that its timers would send before
// it continues are not sent. In a bubble, goroutines cannot be stopped, so a running goroutine continues until it waits for the
// server.
func (c *Connection) Freeze() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.frozen == nil && !c.dead {
		c.frozen = make(chan struct{})
	}
}

// Thaw continues a stopped process. After a long stop, the server has ended its watches.
func (c *Connection) Thaw(after time.Duration) {
	c.mutex.Lock()
	open := map[*watch]struct{}{}
	if after > renewDeadline {
		open, c.watches = c.watches, open
	}
	c.thaw()
	c.mutex.Unlock()
	for w := range open {
		w.Close()
	}
}

// thaw ends a stop. The mutex is held.
func (c *Connection) thaw() {
	if c.frozen != nil {
		close(c.frozen)
		c.frozen = nil
	}
}

// whileFrozen waits until the process is not stopped, and reports whether it was stopped.
func (c *Connection) whileFrozen() bool {
	c.mutex.Lock()
	frozen := c.frozen
	c.mutex.Unlock()
	if frozen == nil {
		return false
	}
	<-frozen
	return true
}

// outlast is called when the process has lost its lease. If the process lost the lease while it was stopped, it notices that late:
// for the renewal deadline it tries to renew a lease that others hold.
func (c *Connection) outlast(ctx context.Context) {
	if !c.whileFrozen() {
		return
	}
	c.mutex.Lock()
	after := c.upTo(renewDeadline)
	c.mutex.Unlock()
	_ = pause(ctx, after)
}

// compact makes the server forget its history: a client that asks for changes since an earlier version has to list everything
// again.
func (s *Server) compact() {
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	for _, c := range s.store.collections {
		if n := len(c.history); n > 0 {
			c.trimmed, c.history = c.history[n-1].version, nil
		}
	}
}

// freeze stops a process for a while. If the server's history is compacted meanwhile, the process has to list everything again.
func (w *World) freeze(c *Connection, d time.Duration, compacted bool) {
	c.Freeze()
	w.group.Go(func() {
		_ = pause(w.ctx, d)
		if compacted {
			w.server.compact()
		}
		c.Thaw(d)
		w.note("a process goes on that was stopped for %s", d)
	})
}

// stopped returns the duration of a stop: mostly longer than the lease.
func (g *generator) stopped() time.Duration {
	if g.one(8) {
		return time.Duration(60+g.random.IntN(120)) * time.Second
	}
	return time.Duration(3+g.random.IntN(35)) * time.Second
}

func stopReplica(g *generator) {
	replica, d, compacted := g.random.IntN(g.history.replicas), g.stopped(), g.one(3)
	g.add(g.soon(), func(w *World) {
		if replica < len(w.replicas) {
			w.freeze(w.replicas[replica].connection, d, compacted)
		}
	}, "replica %d is stopped for %s; the server forgets what changed meanwhile: %t", replica, d, compacted)
}
