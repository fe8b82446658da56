package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// startProcess starts a child process that does not outlive this one. It ends
// with ctx: it is asked to, and killed if it has not ended after the grace period.
func startProcess(ctx context.Context, name string, cmd *exec.Cmd, grace time.Duration) (*component, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd.SysProcAttr = ChildAttributes()
	started := make(chan error, 1)
	process := runComponent(name, cancel, func() error {
		// The kernel kills the child when the thread that made it ends, not
		// the process. This goroutine keeps its thread as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return err
		}
		ended := make(chan struct{})
		defer close(ended)
		go terminate(ctx, cmd.Process, ended, grace)
		if err := cmd.Wait(); ctx.Err() == nil {
			return err
		}
		return nil
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	return process, nil
}

// terminate ends a process when ctx ends: with a request first, by force after
// a while.
func terminate(ctx context.Context, process *os.Process, ended <-chan struct{}, grace time.Duration) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(grace):
		_ = process.Kill()
	}
}
