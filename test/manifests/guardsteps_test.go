package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuardSteps applies the patches of docs/guard.md, which lead from mode Warn to Enforce and from failurePolicy Ignore to Fail.
func TestGuardSteps(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/guard.md")
	require.NoError(t, err)
	_, patches, found := strings.Cut(string(document), "```yaml\npatches:\n")
	require.True(t, found)
	patches, _, _ = strings.Cut(patches, "```")

	folder := t.TempDir()
	guard, err := filepath.Abs("../../manifests/guard")
	require.NoError(t, err)
	guard, err = filepath.Rel(folder, guard)
	require.NoError(t, err)
	kustomization := "resources: [" + guard + "]\npatches:\n" + patches
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization), 0o600))
	rendered := shell(t, "kubectl kustomize "+folder)
	require.Contains(t, rendered, "--mode=Enforce")
	require.NotContains(t, rendered, "--mode=Warn")
	require.NotContains(t, rendered, "failurePolicy: Ignore")
}
