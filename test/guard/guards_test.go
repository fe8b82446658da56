package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// guards are processes of which one decides.
type guards struct {
	t         *testing.T
	processes []*scheduler.Process
}

// installGuards has API servers ask guards until the test ends. There are none yet.
func installGuards(t *testing.T, policy admissionregistrationv1.FailurePolicyType) *guards {
	t.Helper()
	g := &guards{t: t}
	require.NoError(t, cluster.InstallGuard(t.Context(), policy))
	t.Cleanup(func() {
		require.NoError(t, cluster.RemoveGuard(context.WithoutCancel(t.Context())))
		for _, process := range g.processes {
			require.NoError(t, process.Err(), "the guard ended although nobody asked it to")
			require.NoError(t, process.Stop())
		}
	})
	return g
}

// start starts one more.
func (g *guards) start(args ...string) *scheduler.Process {
	g.t.Helper()
	process, err := cluster.StartGuard(g.t.Context(), fmt.Sprintf("%s-guard-%d", g.t.Name(), len(g.processes)), append(slices.Clone(harness.ShortGuardLease), args...)...)
	require.NoError(g.t, err)
	g.processes = append(g.processes, process)
	return process
}

// decider waits until one of the processes, but for those left out, decides and API servers ask it.
func (g *guards) decider(without ...*scheduler.Process) *scheduler.Process {
	g.t.Helper()
	found, err := g.find(without...)
	require.NoError(g.t, err)
	return found
}

// find is decider for any goroutine.
func (g *guards) find(without ...*scheduler.Process) (found *scheduler.Process, err error) {
	err = harness.Poll(g.t.Context(), harness.Patience, func(ctx context.Context) error {
		var errs []error
		for _, process := range g.processes {
			if slices.Contains(without, process) {
				continue
			}
			err := harness.GuardDecides(ctx, process)
			if err == nil {
				found = process
				return cluster.GuardIsAsked(ctx, process)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return nil, fmt.Errorf("there is no guard that decides: %w", err)
	}
	return found, nil
}

func (g *guards) webhook(ctx context.Context) (*admissionregistrationv1.ValidatingWebhook, error) {
	config, err := cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, registration.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &config.Webhooks[0], nil
}

// kill ends the guard that decides without a warning, waits for another one, and starts it again.
func (g *guards) kill() error {
	victim, err := g.find()
	if err != nil {
		return err
	}
	if err := victim.Kill(); err != nil {
		return err
	}
	if _, err := g.find(victim); err != nil {
		return err
	}
	return victim.Restart(g.t.Context())
}

// pause stops the guard that decides until another one does. When it goes on, it must not decide.
func (g *guards) pause() error {
	victim, err := g.find()
	if err != nil {
		return err
	}
	if err := syscall.Kill(victim.PID(), syscall.SIGSTOP); err != nil {
		return err
	}
	resume := sync.OnceValue(func() error { return syscall.Kill(victim.PID(), syscall.SIGCONT) })
	defer func() { _ = resume() }()
	successor, err := g.find(victim)
	if err != nil {
		return err
	}
	if err := resume(); err != nil {
		return err
	}
	if err := harness.GuardDecides(g.t.Context(), victim); err == nil {
		return errors.New("the guard that was paused for longer than its Lease still decides")
	}
	return cluster.GuardIsAsked(g.t.Context(), successor)
}
