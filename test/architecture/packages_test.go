package architecture

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallPackage is the number of lines below which a package with one importer should be a file of that importer.
const smallPackage = 150

// reasonsForSmall lists small packages with one importer, each with the reason why it is a package.
var reasonsForSmall = map[string]string{}

// TestPackagesSayTheirDomain: the first comment of each package is one sentence about its domain.
func TestPackagesSayTheirDomain(t *testing.T) {
	t.Parallel()
	for _, d := range packages(t, product...) {
		if d.Name != "main" {
			require.True(t, strings.HasPrefix(d.Doc, "Package "+d.Name+" "), "%s: begin its first comment with Package %s and a verb", d.ImportPath, d.Name)
		}
	}
}

// TestSmallPackagesHaveAReason: a small package that one other package uses is part of that package, unless there is a reason.
func TestSmallPackagesHaveAReason(t *testing.T) {
	t.Parallel()
	all, importers := packages(t, product...), map[string]int{}
	for _, d := range all {
		for _, imported := range d.Imports {
			importers[imported]++
		}
	}
	small := map[string]bool{}
	for _, d := range all {
		lines := 0
		for _, file := range d.GoFiles {
			text, err := os.ReadFile(filepath.Join(d.Dir, file))
			require.NoError(t, err)
			lines += bytes.Count(text, []byte("\n"))
		}
		if d.Name != "main" && lines < smallPackage && importers[d.ImportPath] < 2 {
			name := strings.TrimPrefix(d.ImportPath, module)
			small[name] = true
			require.NotEmpty(t, reasonsForSmall[name], "%s has %d lines and %d importer: make it a file of the room %s, or say why not", name, lines, importers[d.ImportPath], path.Dir(name))
		}
	}
	for name := range reasonsForSmall {
		require.True(t, small[name], "%s needs no reason any more", name)
	}
}
