package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	spec partSpec
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
	process  *os.Process
	commands io.Writer
	// replies is closed when the process has ended.
	replies <-chan partReply
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
	_, err = run.reply(ctx)
	if err == nil {
		err = p.ready(ctx, run.component)
	}
	if err != nil {
		run.asked.Store(true)
		return fmt.Errorf("start %s: %w", p.name, errors.Join(err, run.stop()))
	}
	p.run = run
	go p.watch(run)
	return nil
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

// compact makes etcd compact itself.
func (p *Part) compact(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0, fmt.Errorf("compact %s: it does not run; start it first", p.name)
	}
	if _, err := fmt.Fprintln(p.run.commands, compactCommand); err != nil {
		return 0, fmt.Errorf("compact %s: tell its process: %w", p.name, err)
	}
	reply, err := p.run.reply(ctx)
	if err != nil {
		return 0, fmt.Errorf("compact %s: %w", p.name, err)
	}
	return reply.Revision, nil
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

// launch starts the process, which answers once it listens.
func (p *Part) launch() (*partRun, error) {
	spec := p.spec
	spec.Part = p.name
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close() // The child has its own.
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), partEnv+"="+string(encoded))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{write}
	commands, err := cmd.StdinPipe()
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	component, err := startProcess(context.Background(), p.name, cmd, partStopTimeout)
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	replies := make(chan partReply, 1)
	go readReplies(read, replies)
	return &partRun{component: component, process: cmd.Process, commands: commands, replies: replies}, nil
}

// readReplies passes the lines of a part on until the part has ended.
func readReplies(from io.ReadCloser, to chan<- partReply) {
	defer close(to)
	defer from.Close()
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var reply partReply
		if err := json.Unmarshal(lines.Bytes(), &reply); err != nil {
			reply.Error = fmt.Sprintf("it answered %q: %v", lines.Text(), err)
		}
		to <- reply
	}
}

// reply waits for the next answer.
func (r *partRun) reply(ctx context.Context) (partReply, error) {
	select {
	case reply, open := <-r.replies:
		if !open {
			<-r.done
			_, err := r.component.ended()
			return partReply{}, err
		}
		if reply.Error != "" {
			return partReply{}, errors.New(reply.Error)
		}
		return reply, nil
	case <-ctx.Done():
		return partReply{}, fmt.Errorf("%w before it answered", context.Cause(ctx))
	}
}
