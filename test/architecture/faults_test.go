package architecture

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFaultsApply: each fault that `make simulation-faults` puts back still fits the code. Otherwise nobody notices that the
// simulation does not look for it any more.
func TestFaultsApply(t *testing.T) {
	t.Parallel()
	patches, err := filepath.Glob(filepath.Join(root, "test", "simulation", "faults", "*.patch"))
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		name, err := filepath.Abs(patch)
		require.NoError(t, err)
		check := exec.CommandContext(t.Context(), "git", "apply", "--check", name)
		check.Dir = root
		said, err := check.CombinedOutput()
		require.NoError(t, err, "%s: %s", filepath.Base(patch), said)
	}
}
