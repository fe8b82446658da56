package chart

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long something may take to come true on a busy machine.
const patience = 3 * time.Minute

// poll is how often tests look.
const poll = 50 * time.Millisecond

// controlPlane is a process with etcd, kube-apiserver, controllers, simulated nodes with devices, and nothing of ours installed.
type controlPlane struct {
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
	dynamic    dynamic.Interface

	folder  string
	process *exec.Cmd
}

var shared struct {
	sync.Mutex
	*controlPlane
}

func TestMain(m *testing.M) {
	// With each look at the chart, Helm says that there is a symbolic link.
	slog.SetLogLoggerLevel(slog.LevelWarn)
	status := m.Run()
	if shared.controlPlane != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// onCluster returns the control plane of this process for one test, which has it for itself and leaves it as it was.
func onCluster(t *testing.T) *controlPlane {
	t.Helper()
	// Helm and the clients keep what they know of the server's APIs in the user's folders.
	t.Setenv("HOME", t.TempDir())
	if shared.controlPlane == nil {
		started, err := startControlPlane()
		require.NoError(t, err)
		shared.controlPlane = started
	}
	return shared.controlPlane
}

// binary is what "make build" makes.
func binary(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the executable %s: %w; run \"make build\"", name, err)
	}
	return path, nil
}

func startControlPlane() (*controlPlane, error) {
	program, err := binary("playground")
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "quartermaster-chart-")
	if err != nil {
		return nil, err
	}
	process := exec.Command(program, "up", "--no-scheduler", "--nodes=2", "--devices-per-node=4", "--dir="+filepath.Join(folder, "cluster"))
	process.Stderr = os.Stderr
	process.SysProcAttr = childAttributes()
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	c := &controlPlane{folder: folder, process: process}
	var said []string
	for lines := bufio.NewScanner(output); lines.Scan(); {
		said = append(said, lines.Text())
		if path, found := strings.CutPrefix(lines.Text(), "export KUBECONFIG="); found {
			c.kubeconfig = strings.Trim(path, `"`)
			return c, c.connect()
		}
	}
	return nil, errors.Join(fmt.Errorf("%s ended before it had a cluster; it said: %q; its logs are in %s", program, said, folder), process.Wait())
}

func (c *controlPlane) connect() (err error) {
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return err
	}
	c.config.QPS = -1
	// That there are newer kinds than some that are listed is nobody's concern here.
	c.config.WarningHandlerWithContext = rest.NoWarnings{}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	c.dynamic, err = dynamic.NewForConfig(c.config)
	return err
}

func (c *controlPlane) stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := c.process.Wait(); err != nil {
		return fmt.Errorf("the control plane did not end well: %w; its logs are in %s", err, c.folder)
	}
	return os.RemoveAll(c.folder)
}
