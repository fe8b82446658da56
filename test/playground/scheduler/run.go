package scheduler

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// run is one run of the process.
type run struct {
	cmd     *exec.Cmd
	address string
	// asked is set before a signal is sent, to distinguish this end from a crash.
	asked atomic.Bool
	// done is closed after waitErr is set; waitErr is read only after that.
	done    chan struct{}
	waitErr error
}

func (r *run) wait() {
	r.waitErr = r.cmd.Wait()
	close(r.done)
}

// end sends the signal, waits until the process is gone, and kills it if it outlives StopGracePeriod. The exit status
// of a process that was asked to end is not an error.
func (r *run) end(signal syscall.Signal) error {
	r.asked.Store(true)
	if err := r.signal(signal); err != nil {
		return err
	}
	select {
	case <-r.done:
		return nil
	case <-time.After(StopGracePeriod):
	}
	if err := r.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-r.done
	return nil
}

func (r *run) signal(signal syscall.Signal) error {
	err := r.cmd.Process.Signal(signal)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("send %s to scheduler process %d: %w; end it by hand", signal, r.cmd.Process.Pid, err)
}

// unexpectedEnd returns nil if the end was expected. The run must have ended.
func (r *run) unexpectedEnd(logFile string) error {
	if r.asked.Load() {
		return nil
	}
	status := "status 0"
	if r.waitErr != nil {
		status = r.waitErr.Error()
	}
	return fmt.Errorf("scheduler process %d ended by itself with %s; end of %s:\n%s",
		r.cmd.Process.Pid, status, logFile, logTail(logFile))
}
