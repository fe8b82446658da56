package architecture

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testName is how documents name a test or benchmark of ours: the function, and perhaps a
// subtest, in backquotes.
var testName = regexp.MustCompile("`((?:Test|Benchmark)[A-Za-z0-9_]+)(?:/([^`]+))?`")

// testFunction is the beginning of a test or benchmark.
var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)[A-Za-z0-9_]+)\(\w+ \*testing\.[TB]\)`)

// Documents must not go on naming tests and benchmarks that were renamed or removed.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	files, all := testFiles(t), documents(t)
	for _, path := range []string{"docs/design/tests.md", "test/compat/releases.md"} {
		require.Regexp(t, testName, all[path], path)
	}
	for path, document := range all {
		for _, name := range testName.FindAllStringSubmatch(document, -1) {
			assert.True(t, len(files[name[1]]) > 0, "%s names %s", path, name[0])
			if name[2] != "" {
				assert.True(t, mentions(files[name[1]], name[2]), "%s names %s, but no file with %s has the text %q", path, name[0], name[1], name[2])
			}
		}
	}
}

// testFiles returns the texts of the files with tests, by the names of the tests.
func testFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := make(map[string][]string)
	for _, folder := range []string{"cmd", "pkg", "internal", "test", "manifests", "tools"} {
		isTest := func(name string) bool { return strings.HasSuffix(name, "_test.go") }
		for _, content := range filesOf(t, filepath.Join(root, folder), isTest) {
			for _, function := range testFunction.FindAllStringSubmatch(content, -1) {
				files[function[1]] = append(files[function[1]], content)
			}
		}
	}
	// The subtests of TestCatalogue are scenarios.
	isSource := func(name string) bool { return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") }
	for _, content := range filesOf(t, filepath.Join(root, "test", "playground", "catalogue"), isSource) {
		files["TestCatalogue"] = append(files["TestCatalogue"], content)
	}
	return files
}

// mentions reports whether any of the files has the name of a subtest as a string.
func mentions(files []string, subtest string) bool {
	for _, file := range files {
		if strings.Contains(file, `"`+subtest+`"`) {
			return true
		}
	}
	return false
}
