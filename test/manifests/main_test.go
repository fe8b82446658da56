package manifests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
)

// startTimeout is generous: the machine may be busy.
const startTimeout = 3 * time.Minute

// cluster is the control plane that all tests of this package share. Each test
// leaves it as it found it.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var err error
	if cluster, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

func newDynamicClient(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	return client
}

// kubectl runs the kubectl of our Kubernetes version from the root of the
// repository, as a user does, and fails the test if kubectl fails.
func kubectl(t *testing.T, arguments ...string) {
	t.Helper()
	binary, err := controlplane.FindBinary("kubectl")
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), binary, arguments...)
	command.Dir = filepath.Join("..", "..")
	// Nothing of the user's own configuration.
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.AdminKubeconfig(), "HOME="+t.TempDir())
	output, err := command.CombinedOutput()
	require.NoError(t, err, "kubectl %v: %s", arguments, output)
}
