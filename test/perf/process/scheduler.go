package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/pkg/controlplane"
	"github.com/quartermaster-dra/quartermaster/pkg/playground/schedulerproc"
)

// subject is a scheduler to measure.
type subject struct {
	label, binary string
	// change turns the shipped configuration into this scheduler's.
	change func(config map[string]any)
}

var subjects = []subject{
	{label: "in-tree", binary: "kube-scheduler", change: withoutPlugins},
	{label: "quartermaster", binary: "scheduler", change: func(map[string]any) {}},
}

// withoutPlugins leaves kube-scheduler's default plugins in place, and all else as
// it is shipped.
func withoutPlugins(config map[string]any) {
	delete(config["profiles"].([]any)[0].(map[string]any), "plugins")
}

// measurement is what a scheduler's process came to.
type measurement struct {
	label string
	// heap are live objects, in bytes; resident is the process's memory, which
	// holds garbage and code as well.
	heap, resident uint64
	// start is CPU time from the start until the pods are created, perPod the rest
	// divided by the pods.
	start, perPod time.Duration
	throughput    float64
}

func (m measurement) String() string {
	return fmt.Sprintf("%-13s  heap %6.1f MiB  resident %6.1f MiB  CPU to start %5.2f s  CPU per pod %6.3f ms  %6.1f pods/s",
		m.label, float64(m.heap)/(1<<20), float64(m.resident)/(1<<20), m.start.Seconds(), float64(m.perPod)/float64(time.Millisecond), m.throughput)
}

// measureOne starts a scheduler, has it schedule pods, and measures it.
func measureOne(ctx context.Context, client kubernetes.Interface, kubeconfig string, s subject, o options) (_ measurement, err error) {
	process, err := start(ctx, kubeconfig, s, o)
	if err != nil {
		return measurement{}, err
	}
	defer func() {
		if stopErr := process.Stop(); err == nil {
			err = stopErr
		}
	}()
	started, err := cpuTime(process.PID())
	if err != nil {
		return measurement{}, err
	}
	begin := time.Now()
	if err := runPods(ctx, client, o); err != nil {
		return measurement{}, err
	}
	elapsed := time.Since(begin)
	ended, err := cpuTime(process.PID())
	if err != nil {
		return measurement{}, err
	}
	heap, err := liveHeap(ctx, process.Address(), filepath.Join(o.results, s.label+"-heap.txt"))
	if err != nil {
		return measurement{}, err
	}
	resident, err := residentMemory(process.PID())
	if err != nil {
		return measurement{}, err
	}
	if err := removePods(ctx, client); err != nil {
		return measurement{}, err
	}
	return measurement{
		label: s.label, heap: heap, resident: resident,
		start: started, perPod: (ended - started) / time.Duration(o.pods), throughput: float64(o.pods) / elapsed.Seconds(),
	}, nil
}

func start(ctx context.Context, kubeconfig string, s subject, o options) (*schedulerproc.Process, error) {
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
	log := filepath.Join(o.results, s.label+".log")
	if err := os.RemoveAll(log); err != nil {
		return nil, err
	}
	return schedulerproc.Start(ctx, schedulerproc.Options{
		Binary: binary, Kubeconfig: kubeconfig, Config: encoded, LeaderElection: ptr.To(false), LogFile: log,
		ExtraArgs: []string{"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--authorization-always-allow-paths=/healthz,/readyz,/livez,/debug/pprof/*"},
	})
}
