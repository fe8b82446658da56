package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/pkg/controlplane"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/schedulerproc"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// schedulerVerbosity is klog's -v of the schedulers under test: enough to follow
// each pod.
const schedulerVerbosity = "-v=3"

// scheduler is a scheduler process and the pods that it is responsible for.
type scheduler struct {
	// profile is the schedulerName of its pods.
	profile string
	process *schedulerproc.Process
}

// shared is the scheduler that most tests use, exactly as manifests/secondary
// configures it. The first test that needs it starts it.
var shared struct {
	sync.Mutex
	scheduler *scheduler
	err       error
}

// sharedScheduler returns the running shared scheduler.
func sharedScheduler(t *testing.T) *scheduler {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil && shared.err == nil {
		shared.scheduler, shared.err = startSharedScheduler()
	}
	require.NoError(t, shared.err)
	require.NoError(t, shared.scheduler.process.Err(), "the shared scheduler has to keep running")
	return shared.scheduler
}

func startSharedScheduler() (*scheduler, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	config, err := manifests.SchedulerConfig(manifests.Secondary)
	if err != nil {
		return nil, err
	}
	process, err := startProcess(ctx, "scheduler", schedulerproc.Options{Config: config})
	return &scheduler{profile: workload.SchedulerName, process: process}, err
}

func stopSharedScheduler() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.scheduler == nil || shared.scheduler.process == nil {
		return nil
	}
	return errors.Join(shared.scheduler.process.Err(), shared.scheduler.process.Stop())
}

// startProcess starts a binary in bin. Unless the options say otherwise, it
// has the identity of the manifests.
func startProcess(ctx context.Context, binary string, options schedulerproc.Options) (*schedulerproc.Process, error) {
	var err error
	if options.Binary, err = controlplane.FindBinary(binary); err != nil {
		return nil, err
	}
	if options.Kubeconfig == "" {
		options.Kubeconfig = cluster.kubeconfig
	}
	if options.LogFile == "" {
		options.LogFile = filepath.Join(cluster.logs, "scheduler.log")
	}
	options.ExtraArgs = append(options.ExtraArgs, schedulerVerbosity,
		// In a pod, these two are found by themselves.
		"--authentication-kubeconfig="+options.Kubeconfig, "--authorization-kubeconfig="+options.Kubeconfig)
	return schedulerproc.Start(ctx, options)
}

// ownSchedulerConfig returns the configuration of manifests/secondary for another
// profile name and another limit of requests per second; 0 leaves the limit.
func ownSchedulerConfig(t *testing.T, profile string, qps int) []byte {
	t.Helper()
	shipped, err := manifests.SchedulerConfig(manifests.Secondary)
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, yaml.Unmarshal(shipped, &config))
	config["profiles"].([]any)[0].(map[string]any)["schedulerName"] = profile
	if qps > 0 {
		connection := config["clientConnection"].(map[string]any)
		connection["qps"], connection["burst"] = qps, qps
	}
	changed, err := yaml.Marshal(config)
	require.NoError(t, err)
	return changed
}

// startOwnScheduler runs a scheduler for the pods of one space (see newOwnSpace)
// with a limit of requests per second, 0 for the usual one. It does without leader
// election, whose lease the shared scheduler has.
func (s *space) startOwnScheduler(qps int) *scheduler {
	s.t.Helper()
	process, err := startProcess(s.t.Context(), "scheduler", schedulerproc.Options{
		Config:         ownSchedulerConfig(s.t, s.profile, qps),
		LeaderElection: ptr.To(false),
		LogFile:        filepath.Join(cluster.logs, fmt.Sprintf("scheduler-%s.log", s.profile)),
	})
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		require.NoError(s.t, process.Err(), "the scheduler ended although nobody asked it to")
		require.NoError(s.t, process.Stop())
	})
	s.log = process.LogFile()
	return &scheduler{profile: s.profile, process: process}
}
