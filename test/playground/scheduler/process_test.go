package scheduler

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadline is for processes that take milliseconds on an idle machine.
const deadline = 3 * time.Minute

func startFake(t *testing.T, opts Options) *Process {
	t.Helper()
	p, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return p
}

// alive reports whether a process exists. Signal 0 only checks that.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func requireDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(deadline):
		t.Fatal("the process has not ended")
	}
}

func TestStartStopRestart(t *testing.T) {
	t.Parallel()
	opts := fakeOptions(t, fakeReady)
	opts.ExtraArgs = []string{"--extra=for the fake"}
	p := startFake(t, opts)
	first := p.PID()
	require.True(t, alive(first))
	require.NoError(t, p.Err(), "a running process has no error")

	require.NoError(t, p.Stop())
	requireDone(t, p)
	require.False(t, alive(first))
	require.NoError(t, p.Err(), "an end that was asked for is no error")
	require.NoError(t, p.Stop(), "stopping twice is no error")

	require.NoError(t, p.Restart(t.Context()))
	second := p.PID()
	require.NotEqual(t, first, second)
	require.True(t, alive(second))

	require.NoError(t, p.Restart(t.Context()), "restarting stops what runs")
	require.False(t, alive(second))
	require.True(t, alive(p.PID()))

	log, err := os.ReadFile(p.LogFile())
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(log), `extra "for the fake"`), "one line for each start:\n%s", log)
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	p := startFake(t, fakeOptions(t, fakeStubborn))
	first := p.PID()
	require.NoError(t, p.Kill())
	requireDone(t, p)
	require.False(t, alive(first))
	require.NoError(t, p.Err(), "a kill that was asked for is no error")
	require.NoError(t, p.Restart(t.Context()))
	require.True(t, alive(p.PID()))
}

func TestUnexpectedEnd(t *testing.T) {
	t.Parallel()
	p := startFake(t, fakeOptions(t, fakeExitLater))
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGUSR1))
	requireDone(t, p)
	require.ErrorContains(t, p.Err(), "exit status 5")
	require.ErrorContains(t, p.Err(), "lost its lease", "the error shows the end of the log")
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	impatient := func(parent context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(parent, 300*time.Millisecond)
	}
	patient := func(parent context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(parent, deadline)
	}
	for name, tc := range map[string]struct {
		mode   string
		change func(*Options)
		bound  func(context.Context) (context.Context, context.CancelFunc)
		want   []string
	}{
		"exits": {
			mode: fakeExits, bound: patient,
			want: []string{"ended before it was ready", "exit status 3", "cannot go on"},
		},
		"never ready": {
			mode: fakeNotReady, bound: impatient,
			want: []string{"is not ready", "deadline exceeded"},
		},
		"no binary": {
			mode: fakeReady, bound: patient, change: func(o *Options) { o.Binary = "/nowhere/scheduler" },
			want: []string{"/nowhere/scheduler", "make build"},
		},
		"no kubeconfig": {
			mode: fakeReady, bound: patient, change: func(o *Options) { o.Kubeconfig = "" },
			want: []string{"Options.Kubeconfig is empty"},
		},
		"no configuration": {
			mode: fakeReady, bound: patient, change: func(o *Options) { o.Config = []byte("kind: ConfigMap") },
			want: []string{`kind "ConfigMap"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := fakeOptions(t, tc.mode)
			if tc.change != nil {
				tc.change(&opts)
			}
			ctx, cancel := tc.bound(t.Context())
			defer cancel()
			_, err := Start(ctx, opts)
			for _, part := range tc.want {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestLogTail(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/log"
	require.Contains(t, logTail(path), "no log")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.Equal(t, "(the log is empty)", logTail(path))
	require.NoError(t, os.WriteFile(path, []byte("first\n"+strings.Repeat("x", logTailBytes)+"\nlast\n"), 0o600))
	require.Equal(t, "last", logTail(path), "a line that does not fit is left out")

	p := &Process{opts: Options{LogFile: path}}
	lines, err := p.LogLines("st")
	require.NoError(t, err)
	require.Equal(t, []string{"first\n", "last\n"}, lines)
	require.NoError(t, os.Remove(path))
	_, err = p.LogLines("st")
	require.ErrorIs(t, err, os.ErrNotExist)
}
