package playground

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// ClusterOptions configures a cluster. Dir is required, everything else has defaults.
type ClusterOptions struct {
	// Dir is the folder for data, credentials and logs. It must exist; Stop does not delete it.
	Dir string
	// SchedulerBinary is a kube-scheduler executable; the default is bin/scheduler.
	SchedulerBinary string
	// SchedulerConfig is a KubeSchedulerConfiguration (YAML); the default is that of manifests/secondary.
	SchedulerConfig []byte
	// Verbosity is klog's -v of all components.
	Verbosity int
	// FeatureGates overrides defaults of Kubernetes in all components, and APIs
	// switches versions of the API on and off.
	FeatureGates map[string]bool
	APIs         map[string]bool
	// NotInstalled leaves out the objects of the manifests: the scheduler's identity and PodGroups. StartScheduler
	// then fails until they are installed.
	NotInstalled bool
}

// Cluster is a running control plane with simulated nodes and, after
// StartScheduler, a scheduler.
type Cluster struct {
	// Client and Dynamic act as administrator, without client-side limits.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface

	options      ClusterOptions
	controlPlane *controlplane.ControlPlane

	mu        sync.Mutex
	scheduler *scheduler.Process

	// ended is closed when a component ends unexpectedly; endErr, set before, says which.
	ended   chan struct{}
	endOnce sync.Once
	endErr  error
}

// StartCluster starts the control plane, creates the scheduler's identity and starts KWOK. There are no nodes yet:
// KWOK simulates each Node object with its annotation. ctx bounds the start only.
func StartCluster(ctx context.Context, options ClusterOptions) (*Cluster, error) {
	controlPlane, err := controlplane.Start(ctx, controlplane.Options{
		Dir:           filepath.Join(options.Dir, "controlplane"),
		LogFile:       filepath.Join(options.Dir, "controlplane.log"),
		LogVerbosity:  options.Verbosity,
		FeatureGates:  options.FeatureGates,
		RuntimeConfig: options.APIs,
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, controlPlane: controlPlane, ended: make(chan struct{})}
	if err := c.setUp(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	go c.watch(controlPlane.Done(), controlPlane.Err)
	return c, nil
}

func (c *Cluster) setUp(ctx context.Context) error {
	config := c.controlPlane.AdminConfig()
	var err error
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("make a dynamic client: %w", err)
	}
	if !c.options.NotInstalled {
		if err := install(ctx, config); err != nil {
			return err
		}
	}
	// The simulation ends with the control plane, not with the start.
	return c.controlPlane.StartSimulatedNodes(context.WithoutCancel(ctx))
}

// install creates the scheduler's identity, and PodGroups.
func install(ctx context.Context, config *rest.Config) error {
	if err := manifests.Apply(ctx, config, manifests.Secondary, manifests.ApplyOptions{RBACOnly: true}); err != nil {
		return err
	}
	return manifests.Apply(ctx, config, manifests.PodGroups, manifests.ApplyOptions{})
}

// StartScheduler starts the scheduler under the identity of the manifests and
// returns when it is ready. ctx bounds the start only.
func (c *Cluster) StartScheduler(ctx context.Context) error {
	binary, config := c.options.SchedulerBinary, c.options.SchedulerConfig
	var err error
	if binary == "" {
		if binary, err = controlplane.FindBinary("scheduler"); err != nil {
			return err
		}
	}
	if len(config) == 0 {
		if config, err = manifests.SchedulerConfig(manifests.Secondary); err != nil {
			return err
		}
	}
	kubeconfig, err := c.controlPlane.ServiceAccountKubeconfig(ctx, manifests.Namespace, manifests.Name)
	if err != nil {
		return err
	}
	process, err := scheduler.Start(ctx, scheduler.Options{
		Binary:       binary,
		Kubeconfig:   kubeconfig,
		Config:       config,
		LogFile:      filepath.Join(c.options.Dir, "scheduler.log"),
		FeatureGates: c.options.FeatureGates,
		ExtraArgs: []string{
			fmt.Sprintf("-v=%d", c.options.Verbosity),
			// Who may read metrics is up to the API server, as in a cluster.
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.scheduler = process
	c.mu.Unlock()
	go c.watch(process.Done(), process.Err)
	return nil
}

// Scheduler returns the scheduler's process; nil before StartScheduler.
func (c *Cluster) Scheduler() *scheduler.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scheduler
}

// Kubeconfig returns the path of a kubeconfig file with all rights.
func (c *Cluster) Kubeconfig() string { return c.controlPlane.AdminKubeconfig() }

// MetricsCommand returns a command that prints the scheduler's metrics; StartScheduler has to have succeeded.
func (c *Cluster) MetricsCommand() string {
	pki := filepath.Join(c.controlPlane.Dir(), "pki")
	return fmt.Sprintf("curl -sk --cert %q --key %q https://%s/metrics",
		filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"), c.Scheduler().Address())
}

// Ended is closed when a part of the cluster ends unexpectedly.
func (c *Cluster) Ended() <-chan struct{} { return c.ended }

// Err says which part ended; nil while Ended is open.
func (c *Cluster) Err() error {
	select {
	case <-c.ended:
		return c.endErr
	default:
		return nil
	}
}

// watch records the unexpected end of a part; why returns nil for an expected one.
func (c *Cluster) watch(done <-chan struct{}, why func() error) {
	<-done
	if err := why(); err != nil {
		c.endOnce.Do(func() {
			c.endErr = err
			close(c.ended)
		})
	}
}

// Stop ends the scheduler, then the simulation and the control plane, and
// returns when all of them are gone.
func (c *Cluster) Stop() error {
	var errs []error
	if scheduler := c.Scheduler(); scheduler != nil {
		errs = append(errs, scheduler.Stop())
	}
	return errors.Join(append(errs, c.controlPlane.Stop())...)
}
