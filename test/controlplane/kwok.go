package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// SimulatedNodeAnnotation with the value SimulatedNodeValue marks the Node
// objects that StartSimulatedNodes simulates.
const (
	SimulatedNodeAnnotation = "kwok.x-k8s.io/node"
	SimulatedNodeValue      = "fake"
)

const (
	// Duration of a simulated node's Lease, in seconds. The Lease is renewed four
	// times in that duration. The short duration is the kubelet's and the node
	// lifecycle controller needs it. Where that controller does not run, nobody
	// reads the Leases, and thousands of nodes must not keep the machine busy.
	watchedLeaseSeconds   = 40
	unwatchedLeaseSeconds = 240

	// kwokStopTimeout is the time after which a kwok that does not end is killed.
	kwokStopTimeout = 5 * time.Second
)

// kwokConfig defines the behaviour of simulated nodes and of the pods on them.
//
//go:embed kwok.yaml
var kwokConfig []byte

// simulatedNodes is the node simulator. The zero value is a simulator that does not run.
type simulatedNodes struct {
	mu sync.Mutex
	// process is the last kwok process that was started, if any.
	process *component
}

// StartSimulatedNodes runs KWOK against the control plane, until ctx ends or
// Stop is called. Each node with the annotation kwok.x-k8s.io/node=fake
// becomes Ready and keeps its lease. Pods that are bound to such a node become
// Running; the pods of Jobs become Succeeded a second later, or after the
// duration (like "30s") that their annotation
// pod-complete.stage.kwok.x-k8s.io/delay says; pods that are deleted vanish.
//
// It needs the kwok executable, see Options.KwokBinary. It is an error if the
// simulation is running already.
func (c *ControlPlane) StartSimulatedNodes(ctx context.Context) error {
	if err := c.startSimulatedNodes(ctx); err != nil {
		return fmt.Errorf("simulate nodes: %w", err)
	}
	return nil
}

func (c *ControlPlane) startSimulatedNodes(ctx context.Context) error {
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	select {
	case <-c.done:
		return errors.New("the control plane does not run any more; start another one first")
	default:
	}
	if c.nodes.running() {
		return errors.New("the simulation runs already; end the context that it was started with first")
	}
	binary := c.options.KwokBinary
	if binary == "" {
		var err error
		if binary, err = FindBinary("kwok"); err != nil {
			return err
		}
	}
	if err := os.WriteFile(c.folder.kwokConfig(), kwokConfig, 0o600); err != nil {
		return err
	}
	if err := c.releaseNodeLeases(ctx); err != nil {
		return err
	}
	process, err := startProcess(ctx, "kwok", c.kwokCommand(binary), kwokStopTimeout)
	if err != nil {
		return err
	}
	c.nodes.process = process
	go c.watchSimulation(ctx, process)
	return nil
}

// releaseNodeLeases deletes the Leases of an earlier simulation that has ended: a
// new simulation would wait until they expire.
func (c *ControlPlane) releaseNodeLeases(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("release the leases of simulated nodes: %w", err)
	}
	return nil
}

func (c *ControlPlane) kwokCommand(binary string) *exec.Cmd {
	leaseSeconds := unwatchedLeaseSeconds
	if c.options.NodeLifecycle {
		leaseSeconds = watchedLeaseSeconds
	}
	level := "WARN"
	if c.options.LogVerbosity >= 4 {
		level = "INFO"
	}
	cmd := exec.Command(binary,
		"--config", c.folder.kwokConfig(),
		"--kubeconfig", c.folder.adminKubeconfig(),
		"--node-lease-duration-seconds", strconv.Itoa(leaseSeconds),
		"--v", level,
	)
	// The user's settings for kwok in ~/.kwok must not apply to this cluster.
	cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+filepath.Join(c.folder.root, "kwok"))
	cmd.Stdout, cmd.Stderr = c.log.file, c.log.file
	return cmd
}

// watchSimulation ends the control plane's Done if kwok ends unasked.
func (c *ControlPlane) watchSimulation(ctx context.Context, process *component) {
	<-process.done
	if ctx.Err() == nil {
		_, err := process.ended()
		c.end(fmt.Errorf("%w (log: %s)", err, c.log.path))
	}
}

func (n *simulatedNodes) running() bool {
	if n.process == nil {
		return false
	}
	ended, _ := n.process.ended()
	return !ended
}

// stop ends the simulation, if one runs.
func (n *simulatedNodes) stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	return n.process.stop()
}
