package kubectldevices

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
)

// plugin runs what make build has made as kubectl does it, with bin in the PATH: the command, and completion.
func (d *demo) plugin(t *testing.T) {
	kubectl, err := controlplane.FindBinary("kubectl")
	require.NoError(t, err)
	for _, name := range []string{"kubectl-devices", "kubectl_complete-devices"} {
		_, err := controlplane.FindBinary(name)
		require.NoError(t, err)
	}
	run := func(args ...string) string {
		command := exec.CommandContext(t.Context(), kubectl, args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+d.kubeconfig, "HOME="+t.TempDir(), "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
		output, err := command.Output()
		require.NoError(t, err, args)
		return string(output)
	}
	require.Regexp(t, `^kubectl devices version v\d+\.\d+\.\d+(-\S+)?\n$`, run("devices", "--version"), "the release, or what stands for it between releases")
	require.Regexp(t, `^v1\.\d+\.\d+$`, run("devices", "version", "-o", "jsonpath={.kubernetes}"))
	require.Contains(t, run("devices", "list", "--node", "partitioned-gpu-0"), "partitioned-gpu-0/whole")
	require.Contains(t, run("__complete", "devices", "list", "--node", "partitioned-"), "partitioned-gpu-0\n")
	require.Contains(t, run("__complete", "devices", "holders", "-n", "shared-claim", "sha"), "shared\n")
}
