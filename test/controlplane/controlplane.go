// Package controlplane runs a Kubernetes control plane in child processes of the calling one: etcd,
// kube-apiserver, and kube-controller-manager with those controllers that workloads with resource
// claims need. The tests, the playground and the benchmarks use it. The processes run bin/playground,
// or executables of another release of Kubernetes; see package servers.
//
// It listens on loopback only, with RBAC on. There is no scheduler and there
// are no nodes; StartSimulatedNodes gives life to Node objects.
//
// klog is process-wide. Therefore a process has one control plane at a time, and while that runs,
// the process logs to the log file of its Options. After Stop another one can be started. It needs a
// Unix system.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// inProcess is true while this process has a control plane.
var inProcess atomic.Bool

// ControlPlane is a running control plane. Its methods can be used
// concurrently.
type ControlPlane struct {
	options   Options
	folder    dataFolder
	log       *componentLog
	apiServer *apiServer
	// etcdEndpoint is the URL of etcd.
	etcdEndpoint                     string
	etcd, kubeAPIServer, controllers *Part

	// cleanups undo what Start did, in reverse order.
	cleanups []func() error
	stopping sync.Once
	stopErr  error

	// done is closed when the control plane has stopped or a component has
	// ended unasked.
	done    chan struct{}
	endOnce sync.Once
	endErr  error

	nodes simulatedNodes
}

// Start starts a control plane and returns when pods can be created in the
// default namespace: a few seconds on a machine that is not busy. ctx bounds
// the start; afterwards the control plane runs until Stop.
//
// It is an error to start a second one before the first has stopped.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if !inProcess.CompareAndSwap(false, true) {
		return nil, errors.New("start a control plane: this process has one already, and klog is process-wide; stop that one first")
	}
	c := &ControlPlane{options: o, done: make(chan struct{})}
	c.onStop(func() error { inProcess.Store(false); return nil })
	if err := c.start(ctx); err != nil {
		return nil, c.failStart(err)
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.options.check(); err != nil {
		return err
	}
	if err := c.openFolder(); err != nil {
		return err
	}
	credentials, err := ensureCredentials(c.folder)
	if err != nil {
		return err
	}
	if err := c.startServers(ctx, credentials); err != nil {
		return err
	}
	if err := c.apiServer.writeAdminKubeconfig(c.folder.adminKubeconfig()); err != nil {
		return fmt.Errorf("write the administrator's kubeconfig: %w", err)
	}
	if err := c.startControllers(ctx, credentials); err != nil {
		return err
	}
	c.onStop(c.nodes.stop)
	return nil
}

// openFolder makes and locks the data folder and opens the log in it.
func (c *ControlPlane) openFolder() error {
	var err error
	if c.folder, err = openDataFolder(c.options); err != nil {
		return err
	}
	c.onStop(c.folder.remove)
	lock, err := lockFolder(c.folder)
	if err != nil {
		return err
	}
	c.onStop(lock.release)
	path := c.options.LogFile
	if path == "" {
		path = c.folder.log()
	}
	if c.log, err = openComponentLog(path, c.options.LogVerbosity); err != nil {
		return err
	}
	c.onStop(c.log.close)
	return nil
}

// failStart undoes a start that failed and returns the error to report.
func (c *ControlPlane) failStart(cause error) error {
	if c.log != nil {
		if path, err := c.folder.keepLog(c.log.path); err == nil {
			cause = fmt.Errorf("%w (log: %s)%s", cause, path, lastErrors(path))
		}
	}
	return fmt.Errorf("start a control plane: %w", errors.Join(cause, c.Stop()))
}

// onStop registers a step of Stop. The steps run in reverse order.
func (c *ControlPlane) onStop(cleanup func() error) { c.cleanups = append(c.cleanups, cleanup) }

// componentEnded ends the control plane's Done when a server ends unasked.
func (c *ControlPlane) componentEnded(err error) {
	c.end(fmt.Errorf("%w (log: %s)", err, c.log.path))
}

func (c *ControlPlane) end(err error) {
	c.endOnce.Do(func() {
		c.endErr = err
		close(c.done)
	})
}

// Done is closed when the control plane does not work any more: Stop was
// called, or a component has ended unasked. Err says which.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Err returns why Done is closed: nil after Stop, else what ended unasked.
// It is nil while the control plane runs.
func (c *ControlPlane) Err() error {
	select {
	case <-c.done:
		return c.endErr
	default:
		return nil
	}
}

// LogFile returns the path of the file that all components log to.
func (c *ControlPlane) LogFile() string { return c.log.path }

// Dir returns the absolute path of the data folder.
func (c *ControlPlane) Dir() string { return c.folder.root }

// Stop ends all components, simulated nodes first and etcd last, waits until
// they are gone, and removes a temporary data folder. Further calls do nothing
// and return the same error.
func (c *ControlPlane) Stop() error {
	c.stopping.Do(func() {
		c.end(nil)
		var errs []error
		for i := len(c.cleanups) - 1; i >= 0; i-- {
			errs = append(errs, c.cleanups[i]())
		}
		c.stopErr = errors.Join(errs...)
	})
	return c.stopErr
}
