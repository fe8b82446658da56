package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// partStopTimeout is the time after which a part that does not end is killed. Etcd
// waits seven seconds for its clients to go.
const partStopTimeout = 20 * time.Second

// Part is a server of the control plane in a process of its own, which can be
// ended and started again. Its methods can be used concurrently.
type Part struct {
	name string
	// path is the executable, and args are its arguments. It writes to logFile.
	path    string
	args    []string
	logFile string
	// ready waits until the part serves.
	ready func(context.Context, *component) error
	// ended is called when the part ends without being asked to.
	ended func(error)

	mu sync.Mutex
	// run is the newest process; nil before the first start.
	run *partRun
}

// partRun is one process of a part.
type partRun struct {
	*component
	process *os.Process
	// asked is set once the process is asked to end.
	asked atomic.Bool
}

// Start starts the part with the data and the address that it had before, and
// returns when it serves. It is an error if it runs. ctx bounds the start.
func (p *Part) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: it runs already; stop or kill it first", p.name)
	}
	run, err := p.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if err := p.ready(ctx, run.component); err != nil {
		run.asked.Store(true)
		return fmt.Errorf("start %s: %w", p.name, errors.Join(err, run.stop()))
	}
	p.run = run
	go p.watch(run)
	return nil
}

// launch starts the process.
func (p *Part) launch() (*partRun, error) {
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer log.Close() // The child has its own.
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	component, err := startProcess(context.Background(), p.name, cmd, partStopTimeout)
	if err != nil {
		return nil, err
	}
	return &partRun{component: component, process: cmd.Process}, nil
}

// Stop asks the process to end and waits until it is gone. It does nothing if
// none runs.
func (p *Part) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	p.run.asked.Store(true)
	return p.run.stop()
}

// Kill ends the process with SIGKILL, as a crash would, and waits until it is
// gone. It does nothing if none runs.
func (p *Part) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	p.run.asked.Store(true)
	if err := p.run.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.run.done
	return nil
}

// running reports whether the process runs. The caller holds the mutex.
func (p *Part) running() bool {
	if p.run == nil {
		return false
	}
	ended, _ := p.run.component.ended()
	return !ended
}

// watch reports an end of the process without being asked to.
func (p *Part) watch(run *partRun) {
	<-run.done
	if !run.asked.Load() {
		_, err := run.component.ended()
		p.ended(err)
	}
}
