package kubectl

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestViewerRole: the ClusterRole that warnings name is there, and the document has the same rights.
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
	require.Equal(t, viewerRole, role.Name)
	require.Equal(t, role, read("apiVersion: rbac"+shown))
}
