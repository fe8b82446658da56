package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// upNodePool is the node pool of the cluster of Up.
const upNodePool = "gpu"

// UpFleet is the hardware of the cluster of Up: nodes with plain GPUs.
type UpFleet struct {
	Nodes, DevicesPerNode int
}

// Validate returns an error about invalid numbers.
func (f UpFleet) Validate() error {
	if f.Nodes < 1 {
		return fmt.Errorf("a cluster of %d nodes was asked for; ask for 1 or more", f.Nodes)
	}
	if f.DevicesPerNode < 1 || f.DevicesPerNode > resourceapi.ResourceSliceMaxDevices {
		return fmt.Errorf("%d devices per node were asked for; ask for 1 to %d, the most that a slice can hold",
			f.DevicesPerNode, resourceapi.ResourceSliceMaxDevices)
	}
	return nil
}

// objects returns the nodes, their slices, and the class of their devices.
func (f UpFleet) objects() []runtime.Object {
	objects := append(scenario.Nodes(upNodePool, f.Nodes), builder.DriverClass(fleet.GPUDriver))
	for index := range f.Nodes {
		node := scenario.NodeName(upNodePool, index)
		objects = append(objects, fleet.LocalSlice(fleet.GPUDriver, node, fleet.PlainGPUs(node, 0, f.DevicesPerNode)...).Obj())
	}
	return objects
}

// UpOptions configures the cluster to keep running.
type UpOptions struct {
	Cluster ClusterOptions
	Fleet   UpFleet
}

// Up starts a cluster, prints instructions, and keeps it running until ctx ends; with NotInstalled, it starts no
// scheduler. It fails if a part of the cluster does not start or ends unexpectedly.
func Up(ctx context.Context, options UpOptions, out io.Writer) (err error) {
	report := newProgress(out)
	report.line("starting etcd, kube-apiserver and controllers")
	cluster, err := StartCluster(ctx, options.Cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()

	objects := scenario.NewObjects(cluster.Dynamic)
	for _, object := range options.Fleet.objects() {
		if err := objects.Create(ctx, "", object); err != nil {
			return err
		}
	}
	report.line("%s, %s on each", count(options.Fleet.Nodes, "simulated node"), count(options.Fleet.DevicesPerNode, "GPU"))
	if err := startOrLeave(ctx, cluster, options, report, out); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		report.line("stopping")
		return nil
	case <-cluster.Ended():
		return fmt.Errorf("a part of the cluster ended: %w", cluster.Err())
	}
}

// count returns a number with a noun.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// startOrLeave starts the scheduler unless NotInstalled is set, and prints instructions.
func startOrLeave(ctx context.Context, cluster *Cluster, options UpOptions, report *progress, out io.Writer) error {
	if options.Cluster.NotInstalled {
		_, err := fmt.Fprintf(out, "\nThe cluster is up. Nothing of Quartermaster is installed, and no scheduler runs. In another terminal:\n\n"+
			"export KUBECONFIG=%q\n\nPress Ctrl-C to end the cluster.\n", cluster.Kubeconfig())
		return err
	}
	if err := cluster.StartScheduler(ctx); err != nil {
		return err
	}
	report.line("%s", schedulerTitle(cluster.Scheduler()))
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the folder of this program: %w", err)
	}
	return writeInstructions(out, filepath.Dir(executable), cluster.Kubeconfig(), cluster.MetricsCommand(), options.Fleet)
}

// schedulerTitle says where the scheduler is.
func schedulerTitle(process *scheduler.Process) string {
	return fmt.Sprintf("scheduler ready: process %d, https://%s, log %s", process.PID(), process.Address(), process.LogFile())
}
