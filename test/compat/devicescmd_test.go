package compat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestKubectlDevices: the commands of kubectl devices show what there is and answer questions, whatever version of the claim
// API the server has. It runs alone: what claims of others that their drivers allocate ask for cannot be read (up to 1.31), and
// fit says so.
func TestKubectlDevices(t *testing.T) {
	s := newSpace(t, "kubectl-devices", 1)
	s.Devices(0, harness.Numbered(3)...)
	s.ClaimAndPod("user", s.Want(2, s.Attribute("index")+" > 0"))
	s.Running("user")
	s.ClaimAndPod("waiting", s.Want(2))
	s.Waiting("waiting", "2 held by other claims")
	ask := func(status int, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		command := kubectl.New(genericiooptions.IOStreams{In: new(bytes.Buffer), Out: &out, ErrOut: &errOut})
		command.SetArgs(append(args, "--kubeconfig", cluster.ControlPlane.AdminKubeconfig()))
		got, text := kubectl.StatusOf(command.ExecuteContext(t.Context()))
		require.Equal(t, status, got, "%s\n%s%s", text, out.String(), errOut.String())
		return out.String()
	}
	require.Contains(t, ask(0, "--node", s.Node(0)), "1 of 3")
	listed := ask(0, "list", "--node", s.Node(0), "-o", "wide")
	require.Contains(t, listed, s.Name+"/user")
	require.Contains(t, ask(0, "holders", "pod/"+s.Name+"/user"), s.Node(0)+"/gpu-1")
	explained := ask(0, "explain", "pod/"+s.Name+"/waiting")
	require.Contains(t, explained, "What is in the way on ")
	require.Regexp(t, `held by other\s+claims`, explained)

	pod := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(pod, fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {name: asked, namespace: %s}, spec: {
  nodeName: "", resourceClaims: [{name: gpu, resourceClaimName: waiting}], nodeSelector: {kubernetes.io/hostname: %s}, tolerations: [{operator: Exists}], containers: [{name: main, image: i}]}}`, s.Name, s.Node(0)), 0o600))
	ask(kubectl.ExitNo, "fit", "-f", pod)
	require.Contains(t, ask(0, "fit", "-f", pod, "--without", "pod/"+s.Name+"/user"), "It fits.")
}
