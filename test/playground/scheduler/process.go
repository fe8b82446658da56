package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// StopGracePeriod is the time that Stop waits after SIGTERM before it sends SIGKILL.
const StopGracePeriod = 10 * time.Second

// Options says which scheduler to run and as whom.
type Options struct {
	// Binary is the path of a kube-scheduler executable.
	Binary string
	// Kubeconfig is the path of the file with the scheduler's identity.
	Kubeconfig string
	// Config is a KubeSchedulerConfiguration as YAML. Its clientConnection.kubeconfig is replaced by Kubeconfig.
	Config []byte
	// LeaderElection overrides the configuration's leaderElect. A scheduler that is killed and started again should
	// not use it: its successor would have to wait until the lease of the dead process expires.
	LeaderElection *bool
	// LogFile receives stdout and stderr of the process; a restart appends to
	// it. The configuration is written beside it, as LogFile + ".config.yaml".
	LogFile string
	// FeatureGates are turned on or off; others have their defaults.
	FeatureGates map[string]bool
	// ExtraArgs are appended to the command line.
	ExtraArgs []string
	// Flags is set for programs other than the scheduler that take no configuration file: their identity is the flag
	// --kubeconfig, and Start waits until /healthz answers, since only one of several is ready.
	Flags bool
	// OnlyHealthz is set for programs without /readyz: kube-scheduler up to 1.30. Start waits until /healthz answers.
	OnlyHealthz bool
}

// command returns the arguments of a process that will listen at an address.
func (o *Options) command(configFile, host, port string) []string {
	first := "--config=" + configFile
	if o.Flags {
		first = "--kubeconfig=" + o.Kubeconfig
	}
	return slices.Concat([]string{first, "--bind-address=" + host, "--secure-port=" + port}, gateFlags(o.FeatureGates), o.ExtraArgs)
}

// health returns the path that reports whether the process has started.
func (o *Options) health() string {
	if o.Flags || o.OnlyHealthz {
		return "/healthz"
	}
	return "/readyz"
}

func (o Options) validate() error {
	for _, required := range []struct{ name, value string }{
		{"Binary", o.Binary}, {"Kubeconfig", o.Kubeconfig}, {"LogFile", o.LogFile},
	} {
		if required.value == "" {
			return fmt.Errorf("start scheduler: Options.%s is empty; set it to a path", required.name)
		}
	}
	if _, err := os.Stat(o.Binary); err != nil {
		return fmt.Errorf("start scheduler: no usable executable: %w; build it with `make build` or name another one", err)
	}
	return nil
}

// Process is a scheduler process. After Stop or Kill it can be started again
// with Restart. Its methods may be called from several goroutines.
type Process struct {
	opts       Options
	configFile string

	mu sync.Mutex
	// current is the newest run; never nil, because a Process whose first run
	// failed is not handed out.
	current *run
}

// Start writes the configuration, starts the process and returns when the
// scheduler reports ready. ctx bounds only this wait. If the scheduler does not
// become ready, it is killed and the error holds the end of its log.
func Start(ctx context.Context, opts Options) (*Process, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(opts.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("start scheduler: create the folder of its log: %w", err)
	}
	p := &Process{opts: opts, configFile: opts.LogFile + ".config.yaml"}
	if err := p.writeConfig(); err != nil {
		return nil, fmt.Errorf("start scheduler: %w", err)
	}
	var err error
	p.current, err = p.launch(ctx)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// writeConfig writes the configuration file, if one is needed.
func (p *Process) writeConfig() error {
	if p.opts.Flags {
		return nil
	}
	config, err := configFor(p.opts.Config, p.opts.Kubeconfig, p.opts.LeaderElection)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.configFile, config, 0o600); err != nil {
		return fmt.Errorf("write its configuration: %w", err)
	}
	return nil
}

// Restart starts the process again and returns when it is ready; one that is
// still running is stopped first.
func (p *Process) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.current.end(syscall.SIGTERM); err != nil {
		return err
	}
	next, err := p.launch(ctx)
	if err != nil {
		return err
	}
	p.current = next
	return nil
}

// Stop ends the process with SIGTERM, or with SIGKILL after StopGracePeriod,
// and returns when it is gone. Stopping a process that has ended is no error.
func (p *Process) Stop() error { return p.run().end(syscall.SIGTERM) }

// Kill ends the process with SIGKILL: no deferred work runs, as in a crash.
func (p *Process) Kill() error { return p.run().end(syscall.SIGKILL) }

// Done is closed when the current run has ended for any reason.
func (p *Process) Done() <-chan struct{} { return p.run().done }

// Err describes an unexpected end. It is nil while the process runs and after Stop and Kill.
func (p *Process) Err() error {
	r := p.run()
	select {
	case <-r.done:
		return r.unexpectedEnd(p.opts.LogFile)
	default:
		return nil
	}
}

// PID returns the process ID of the current run.
func (p *Process) PID() int { return p.run().cmd.Process.Pid }

// LogFile returns the path of the log.
func (p *Process) LogFile() string { return p.opts.LogFile }

// LogLines returns the lines of the log that contain a text.
func (p *Process) LogLines(text string) ([]string, error) {
	log, err := os.ReadFile(p.LogFile())
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// Address returns the host:port of the HTTPS endpoints (/readyz, /metrics) of the current run; the certificate is
// self-signed.
func (p *Process) Address() string { return p.run().address }

func (p *Process) run() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// launch starts a run and waits until it is ready.
func (p *Process) launch(ctx context.Context) (*run, error) {
	log, err := os.OpenFile(p.opts.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start scheduler: open its log: %w", err)
	}
	// The child has its own descriptor once it runs.
	defer log.Close()

	host, port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("start scheduler: find a port for its health endpoint: %w", err)
	}
	cmd := exec.Command(p.opts.Binary, p.opts.command(p.configFile, host, port)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start scheduler %s: %w", p.opts.Binary, err)
	}
	r := &run{cmd: cmd, address: host + ":" + port, done: make(chan struct{})}
	go r.wait()

	if err := r.waitReady(ctx, p.opts.health()); err != nil {
		endErr := r.end(syscall.SIGKILL)
		return nil, errors.Join(fmt.Errorf("scheduler %s is not ready: %w\nend of %s:\n%s",
			p.opts.Binary, err, p.opts.LogFile, logTail(p.opts.LogFile)), endErr)
	}
	return r, nil
}
