package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/checker"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// startTimeout is generous: the machine may be busy.
const startTimeout = 3 * time.Minute

// controlPlaneLog is the name of the log of all parts of the control plane.
const controlPlaneLog = "controlplane.log"

// Options are the options of a cluster.
type Options struct {
	// Name is the name of the package under test. It is part of the name of the
	// folder of logs.
	Name string
	// ControlPlane are the options of the control plane. Start sets its LogFile.
	ControlPlane controlplane.Options
	// Binaries are the executables in bin that the tests run besides "scheduler", "playground" (the control plane) and "kwok".
	Binaries []string
	// Parallel is the number of tests that run at a time unless -parallel is set.
	// 0 is 12: tests mostly wait, so that there can be more of them than processors.
	Parallel int
}

// Cluster is a running control plane with simulated nodes and the rights of the
// scheduler. A process has one at a time. It is safe for concurrent use.
type Cluster struct {
	ControlPlane *controlplane.ControlPlane
	// Client acts as administrator.
	Client  kubernetes.Interface
	Objects *scenario.Objects
	// Informers follow pods and claims, so that waiting costs the API server nothing.
	Informers informers.SharedInformerFactory
	// Kubeconfig is the path of the kubeconfig with the scheduler's own identity.
	Kubeconfig string
	// Logs is the folder of all logs.
	Logs string
	// OlderReleases is set if older releases of our scheduler run as well: their reasons have commas.
	OlderReleases bool

	// release and gates are those of the control plane; release is "" for the default.
	release string
	gates   map[string]bool

	history       *history
	names         uniqueNames
	serving       serving
	metrics       metricsAccount
	stopInformers context.CancelFunc
	stopDiscovery context.CancelFunc
}

// Start starts a cluster. ctx bounds the start only.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := requireBinaries(o.Binaries); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "quartermaster-"+o.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the logs of the tests: %w", err)
	}
	o.ControlPlane.LogFile = filepath.Join(dir, controlPlaneLog)
	cp, err := controlplane.Start(ctx, o.ControlPlane)
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: cp, Logs: dir, release: o.ControlPlane.Release, gates: o.ControlPlane.FeatureGates, history: newHistory()}
	if err := c.setUp(ctx); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	if err := c.startInformers(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// requireBinaries returns an error, with the remedy, if an executable is missing.
func requireBinaries(more []string) error {
	var errs []error
	for _, name := range append([]string{"scheduler", "playground", "kwok"}, more...) {
		_, err := controlplane.FindBinary(name)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nthese tests run what is in bin: run make build bin/kube-scheduler", err)
	}
	return nil
}

func (c *Cluster) setUp(ctx context.Context) error {
	config := c.ControlPlane.AdminConfig()
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	// The tests are written for v1 of claims and v1beta1 of PodGroups, whatever the server has.
	served, err := api.WithPodGroups(client)
	if err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.Background())
	c.stopDiscovery = cancel
	c.Client, c.Objects = api.Connect(background, served), scenario.NewObjects(untyped)
	overlays := []string{manifests.Secondary}
	if api.IsAlpha(c.Client) {
		overlays = append(overlays, manifests.AlphaAPI)
	}
	for _, overlay := range overlays {
		if err := manifests.Apply(ctx, config, overlay, manifests.ApplyOptions{RBACOnly: true}); err != nil {
			return err
		}
	}
	if c.Kubeconfig, err = c.ControlPlane.ServiceAccountKubeconfig(ctx, manifests.Namespace, manifests.Name); err != nil {
		return err
	}
	return c.ControlPlane.StartSimulatedNodes(context.Background())
}

func (c *Cluster) startInformers() error {
	ctx, cancel := context.WithCancel(context.Background())
	c.stopInformers = cancel
	c.Informers = informers.NewSharedInformerFactory(c.Client, 0)
	pods := c.Informers.Core().V1().Pods().Informer()
	claims := c.Informers.Resource().V1().ResourceClaims().Informer()
	if err := c.history.watch(pods, claims); err != nil {
		return err
	}
	c.Informers.StartWithContext(ctx)
	c.Informers.WaitForCacheSyncWithContext(ctx)
	return nil
}

// Check waits until the checker finds nothing wrong in the whole cluster.
func (c *Cluster) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	violations, err := checker.WaitSettled(ctx, c.Client, checker.Options{})
	if err != nil {
		return fmt.Errorf("check the whole cluster: %w", err)
	}
	if len(violations) > 0 {
		return fmt.Errorf("the cluster is not in order:\n%s", checker.Format(violations))
	}
	return nil
}

// Stop ends the informers and the control plane. The logs stay.
func (c *Cluster) Stop() error {
	c.stopInformers()
	c.stopDiscovery()
	c.Informers.Shutdown()
	return c.ControlPlane.Stop()
}
