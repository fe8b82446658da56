package architecture

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// claimWrites are the requests that change a claim of v1.
var claimWrites = regexp.MustCompile(`ResourceClaims\([^()]*(\(\))?[^()]*\)\.(Update|UpdateStatus|Patch|Apply|ApplyStatus|Delete|DeleteCollection)\(`)

// TestClaimsAreWrittenInOnePlace: only internal/claims/write writes claims, which takes nothing from a consumer without evidence that it
// is not bound. The guard's fence is an annotation.
func TestClaimsAreWrittenInOnePlace(t *testing.T) {
	t.Parallel()
	isCode := func(name string) bool { return filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") }
	found := 0
	for _, folder := range []string{"pkg", "internal", "cmd"} {
		for path, source := range filesOf(t, filepath.Join(root, folder), isCode) {
			writes := claimWrites.FindAllString(string(source), -1)
			found += len(writes)
			if path := filepath.ToSlash(path); len(writes) > 0 && !strings.Contains(path, "internal/claims/write/") && !strings.HasSuffix(path, "internal/guard/fence.go") {
				assert.Fail(t, "a claim is written without internal/claims/write", "%s: %v", path, writes)
			}
		}
	}
	require.Greater(t, found, 5, "a check that finds nothing proves nothing")
}
