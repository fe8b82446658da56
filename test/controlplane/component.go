package controlplane

import (
	"fmt"
	"sync"
	"time"
)

// componentStopTimeout bounds how long Stop waits for one component.
const componentStopTimeout = 30 * time.Second

// component is a part of the control plane that runs in a goroutine.
type component struct {
	name   string
	cancel func()
	// done is closed when the component has ended; err is set before.
	done chan struct{}
	err  error
}

// runComponent runs a component, which has to return soon after cancel was called.
func runComponent(name string, cancel func(), run func() error) *component {
	c := &component{name: name, cancel: sync.OnceFunc(cancel), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = run()
	}()
	return c
}

// ended says whether the component has ended, and if so, why.
func (c *component) ended() (bool, error) {
	select {
	case <-c.done:
		if c.err == nil {
			return true, fmt.Errorf("%s ended unasked; its log says why", c.name)
		}
		return true, fmt.Errorf("%s ended: %w", c.name, c.err)
	default:
		return false, nil
	}
}

// stop ends the component and waits until it is gone.
func (c *component) stop() error {
	c.cancel()
	timeout := time.NewTimer(componentStopTimeout)
	defer timeout.Stop()
	select {
	case <-c.done:
		if c.err != nil {
			return fmt.Errorf("stop %s: %w", c.name, c.err)
		}
		return nil
	case <-timeout.C:
		return fmt.Errorf("stop %s: it has not ended within %s; its goroutines stay until the process ends", c.name, componentStopTimeout)
	}
}
