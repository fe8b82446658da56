package scheduler

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeEnv makes the test binary behave like a scheduler, in the given way.
const fakeEnv = "SCHEDULERPROC_TEST_FAKE"

// The ways in which the fake scheduler behaves.
const (
	fakeReady     = "ready"
	fakeNotReady  = "not-ready"
	fakeExits     = "exits"
	fakeStubborn  = "ignores-sigterm"
	fakeExitLater = "exits-on-sigusr1"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeEnv); mode != "" {
		os.Exit(fakeScheduler(mode))
	}
	os.Exit(m.Run())
}

// fakeScheduler serves /readyz like kube-scheduler and ends on SIGTERM.
func fakeScheduler(mode string) int {
	flags := flag.NewFlagSet("fake", flag.ExitOnError)
	config := flags.String("config", "", "")
	host := flags.String("bind-address", "", "")
	port := flags.String("secure-port", "", "")
	extra := flags.String("extra", "", "")
	_ = flags.Parse(os.Args[1:])
	fmt.Printf("fake scheduler: config %s, extra %q\n", *config, *extra)
	if mode == fakeExits {
		fmt.Println("fake scheduler: cannot go on")
		return 3
	}
	signals := make(chan os.Signal, 1)
	if mode == fakeStubborn {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(signals, syscall.SIGTERM)
	}
	crash := make(chan os.Signal, 1)
	signal.Notify(crash, syscall.SIGUSR1)

	listener, err := net.Listen("tcp", net.JoinHostPort(*host, *port))
	if err != nil {
		fmt.Println(err)
		return 4
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || mode == fakeNotReady {
			http.Error(w, "informers are not synced", http.StatusInternalServerError)
		}
	}))
	server.Listener = listener
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	select {
	case <-signals:
		return 0
	case <-crash:
		fmt.Println("fake scheduler: lost its lease")
		return 5
	}
}

// fakeOptions runs the test binary as fake scheduler in a new folder.
func fakeOptions(t *testing.T, mode string) Options {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	// The mode has to reach the child only, and exec gives it the environment
	// of the test.
	script := filepath.Join(t.TempDir(), "scheduler")
	content := fmt.Sprintf("#!/bin/sh\n%s=%s exec %q \"$@\"\n", fakeEnv, mode, executable)
	require.NoError(t, os.WriteFile(script, []byte(content), 0o755))
	return Options{
		Binary:     script,
		Kubeconfig: "/somewhere/kubeconfig",
		Config:     []byte("kind: KubeSchedulerConfiguration\n"),
		LogFile:    filepath.Join(t.TempDir(), "logs", "scheduler.log"),
	}
}
