package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// subject is a scheduler to measure.
type subject struct {
	label, binary string
	// change turns the shipped configuration into this scheduler's.
	change func(config map[string]any)
	// only is the name of the one scenario that it goes through; all if empty.
	only string
}

// file returns the prefix of the names of its files.
func (s subject) file() string { return strings.ReplaceAll(s.label, " ", "-") }

// baseline is the subject to which the others are compared: the in-tree plugin under
// the same conditions.
const baseline = "in-tree"

var subjects = []subject{
	{label: "in-tree as it comes", binary: "kube-scheduler", change: asItComes, only: podsScenario.name},
	{label: baseline, binary: "kube-scheduler", change: withoutPlugins},
	{label: "quartermaster", binary: "scheduler", change: func(map[string]any) {}},
}

// withoutPlugins leaves kube-scheduler's default plugins in place with their arguments,
// and all else as it is shipped.
func withoutPlugins(config map[string]any) {
	profile := config["profiles"].([]any)[0].(map[string]any)
	delete(profile, "plugins")
	delete(profile, "pluginConfig")
}

// asItComes also leaves kube-scheduler's default limit of requests in place.
func asItComes(config map[string]any) {
	withoutPlugins(config)
	delete(config, "clientConnection")
}

func start(ctx context.Context, kubeconfig string, s subject, o options) (*scheduler.Process, error) {
	binary, err := controlplane.FindBinary(s.binary)
	if err != nil {
		return nil, err
	}
	shipped, err := manifests.SchedulerConfig(manifests.ReplaceDefault)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal(shipped, &config); err != nil {
		return nil, fmt.Errorf("configuration of overlay %q: %w", manifests.ReplaceDefault, err)
	}
	s.change(config)
	encoded, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(o.results, s.file()+".log")
	if err := os.RemoveAll(log); err != nil {
		return nil, err
	}
	return scheduler.Start(ctx, scheduler.Options{
		Binary: binary, Kubeconfig: kubeconfig, Config: encoded, LeaderElection: ptr.To(false), LogFile: log,
		ExtraArgs: []string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/debug/pprof/*"},
	})
}
