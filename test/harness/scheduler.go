package harness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// schedulerVerbosity is klog's -v of the schedulers under test: enough to follow
// each pod.
const schedulerVerbosity = "-v=3"

// Scheduler is a scheduler process and the pods that it is responsible for.
type Scheduler struct {
	// Profile is the schedulerName of its pods.
	Profile string
	*scheduler.Process
	cluster *Cluster
}

// SchedulerOptions are the differences between a scheduler and that of manifests/secondary.
// The zero value is that scheduler without leader election and with a short takeoverPause.
type SchedulerOptions struct {
	// Binary is the executable in bin. Empty: ours.
	Binary string
	// Shipped is the configuration that the options change. Empty: that of Overlay.
	Shipped []byte
	// Overlay is the folder of manifests with its configuration. Empty: secondary. Its
	// rights have to be applied.
	Overlay string
	// Name tells schedulers of the same profile apart; it is part of the name of
	// the log. Empty: the profile.
	Name string
	// Profile is the schedulerName of its pods. Empty: that of the manifests, or
	// that of the space.
	Profile string
	// Kubeconfig is the path of another identity or another way to the API server.
	// Empty: the identity of the manifests.
	Kubeconfig string
	// LeaderElection makes the scheduler wait for the Lease, as in the manifests.
	LeaderElection bool
	// QPS is the limit of requests per second; 0 is that of the manifests.
	QPS int
	// PluginArgs are arguments of the plugin, see QuartermasterArgs.
	PluginArgs map[string]any
	// Change changes the KubeSchedulerConfiguration, if it is set.
	Change func(config map[string]any)
	// FeatureGates are turned on or off; others have their defaults.
	FeatureGates map[string]bool
	// ExtraArgs are appended to the command line.
	ExtraArgs []string
}

// StartProcess starts a binary in bin. Its default identity is that of the
// manifests.
func (c *Cluster) StartProcess(ctx context.Context, binary string, options scheduler.Options) (*scheduler.Process, error) {
	var err error
	if options.Binary, err = controlplane.FindBinary(binary); err != nil {
		return nil, err
	}
	if options.Kubeconfig == "" {
		options.Kubeconfig = c.Kubeconfig
	}
	if options.LogFile == "" {
		options.LogFile = filepath.Join(c.Logs, "scheduler.log")
	}
	options.ExtraArgs = append(options.ExtraArgs, schedulerVerbosity,
		// In a pod, the defaults of these two are sufficient.
		"--authentication-kubeconfig="+options.Kubeconfig, "--authorization-kubeconfig="+options.Kubeconfig)
	return scheduler.Start(ctx, options)
}

// StartScheduler starts a scheduler and returns when it is ready. ctx bounds only
// the start.
func (c *Cluster) StartScheduler(ctx context.Context, o SchedulerOptions) (*Scheduler, error) {
	config, err := SchedulerConfig(&o)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = o.Profile
	}
	process, err := c.StartProcess(ctx, cmp.Or(o.Binary, "scheduler"), scheduler.Options{
		Config:         config,
		Kubeconfig:     o.Kubeconfig,
		LeaderElection: &o.LeaderElection,
		LogFile:        filepath.Join(c.Logs, fmt.Sprintf("scheduler-%s.log", o.Name)),
		FeatureGates:   o.FeatureGates,
		ExtraArgs:      o.ExtraArgs,
	})
	if err != nil {
		return nil, err
	}
	scheduler := &Scheduler{Profile: o.Profile, Process: process, cluster: c}
	if o.Binary == "" {
		c.serving.add(scheduler, &o)
	}
	return scheduler, nil
}

// SchedulerConfig returns the shipped configuration with the changes of the options. It fills
// in o.Profile.
func SchedulerConfig(o *SchedulerOptions) ([]byte, error) {
	overlay, shipped := cmp.Or(o.Overlay, manifests.Secondary), o.Shipped
	if len(shipped) == 0 {
		var err error
		if shipped, err = manifests.SchedulerConfig(overlay); err != nil {
			return nil, err
		}
	}
	var config map[string]any
	if err := yaml.Unmarshal(shipped, &config); err != nil {
		return nil, fmt.Errorf("read the configuration of manifests/%s: %w", overlay, err)
	}
	profile := config["profiles"].([]any)[0].(map[string]any)
	if o.Profile == "" {
		o.Profile = profile["schedulerName"].(string)
	}
	profile["schedulerName"] = o.Profile
	if o.QPS > 0 {
		connection := config["clientConnection"].(map[string]any)
		connection["qps"], connection["burst"] = o.QPS, o.QPS
	}
	if args := o.pluginArgs(); len(args) > 0 {
		setPluginArgs(profile, args)
	}
	if o.Change != nil {
		o.Change(config)
	}
	return yaml.Marshal(config)
}

// setPluginArgs adds arguments of the plugin to a profile's arguments.
func setPluginArgs(profile, args map[string]any) {
	configured, _ := profile["pluginConfig"].([]any)
	for _, entry := range configured {
		if entry := entry.(map[string]any); entry["name"] == pluginName {
			maps.Copy(entry["args"].(map[string]any), args)
			return
		}
	}
	profile["pluginConfig"] = append(configured, map[string]any{"name": pluginName, "args": args})
}

// takeoverPause is the pause of schedulers that take over from a killed one: on this machine, no
// request of the killed one is under way for longer. With the shipped pause, each test of pods
// that have to wait for its end would take a minute.
const takeoverPause = "3s"

// pluginName is quartermaster.Name; this package does not import the plugin.
const pluginName = "Quartermaster"

// HoldArgs are PluginArgs with which devices are held for what has waited for some time, all of them if need be. Pods of the tests
// beside it wait as well, and each may have a hold.
func HoldArgs(after string) map[string]any {
	return map[string]any{"holdAfter": after, "maxHolds": 64, "maxHeldPercent": 100, "maxHeldPercentPerNamespace": 100}
}

// pluginArgs returns PluginArgs. Without leader election, the default of takeoverPause is short.
func (o *SchedulerOptions) pluginArgs() map[string]any {
	args := make(map[string]any)
	if !o.LeaderElection {
		args["takeoverPause"] = takeoverPause
	}
	maps.Copy(args, o.PluginArgs)
	return args
}

// StartScheduler runs a scheduler for the pods of this space until the end of the
// test. The test fails if the scheduler ends earlier without being asked to.
func (s *Space) StartScheduler(o SchedulerOptions) *Scheduler {
	s.T.Helper()
	if o.Profile == "" {
		o.Profile = s.Profile
	}
	scheduler, err := s.Cluster.StartScheduler(s.T.Context(), o)
	require.NoError(s.T, err)
	s.T.Cleanup(func() {
		s.tellIfFailed() // Before anything else changes.
		s.CheckSettled() // Before the scheduler stops: afterwards, no pod would be placed.
		require.NoError(s.T, scheduler.Err(), "the scheduler ended although nobody asked it to")
		require.NoError(s.T, scheduler.Stop())
	})
	s.Log = scheduler.LogFile()
	return scheduler
}
