package kubectl

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// TestViewerRole: the ClusterRole that the command prints is that of the manifests and of the document.
func TestViewerRole(t *testing.T) {
	read := func(text string) (role rbacv1.ClusterRole) {
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &role))
		return role
	}
	text, err := os.ReadFile("../../manifests/kubectl-devices/clusterrole.yaml")
	require.NoError(t, err)
	document, err := os.ReadFile("../../docs/kubectl-devices.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(document), "```yaml\napiVersion: rbac")
	require.True(t, found)
	shown, _, _ := strings.Cut(after, "```")
	role := read(string(text))
	out, _, err := ask(t, server(whatif.Objects{}, "", ""), "clusterrole")
	require.NoError(t, err)
	require.Equal(t, role, read(out))
	require.Equal(t, role, read("apiVersion: rbac"+shown))
}
