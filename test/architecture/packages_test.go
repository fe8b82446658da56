package architecture

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// maxPackageLines is "about 3,500", not counting tests: what can be understood as one thing.
	maxPackageLines = 3600
	// familyPrefix is how many letters the names of files have to have in common to be a family,
	// and familySize how many files that takes.
	familyPrefix, familySize = 4, 3
)

// packageFiles returns the lines of each file that is not a test, by the folders of their
// packages and their names without extension.
func packageFiles(t *testing.T) map[string]map[string]int {
	t.Helper()
	packages := make(map[string]map[string]int)
	isCode := func(name string) bool { return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") }
	for _, folder := range []string{"cmd", "internal", "pkg", "test"} {
		for file, text := range filesOf(t, path.Join(root, folder), isCode) {
			folder := path.Dir(file)
			if packages[folder] == nil {
				packages[folder] = make(map[string]int)
			}
			packages[folder][strings.TrimSuffix(path.Base(file), ".go")] = strings.Count(text, "\n")
		}
	}
	require.Greater(t, len(packages), 50)
	return packages
}

func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	for name, files := range packageFiles(t) {
		lines := 0
		for _, n := range files {
			lines += n
		}
		assert.LessOrEqual(t, lines, maxPackageLines, "%s is too large: find what can be understood alone, and make it a package", name)
	}
}

// A prefix that files of a package share is a package that was not made. Files are a family if
// there are at least three, not counting tests, whose names begin with the same four letters or
// more. With three letters, the extension points PreEnqueue, PreFilter and PreBind would be one.
func TestNoFamiliesOfFiles(t *testing.T) {
	t.Parallel()
	for name, files := range packageFiles(t) {
		for prefix, members := range families(slices.Collect(maps.Keys(files))) {
			assert.Fail(t, "family of files", "%s has %v, whose names begin with %q: they may belong in a package of their own", name, members, prefix)
		}
	}
}

// families returns the files that are families, by what they have in common.
func families(files []string) map[string][]string {
	byPrefix := make(map[string][]string)
	for _, file := range slices.Sorted(slices.Values(files)) {
		if len(file) >= familyPrefix {
			byPrefix[file[:familyPrefix]] = append(byPrefix[file[:familyPrefix]], file)
		}
	}
	maps.DeleteFunc(byPrefix, func(_ string, members []string) bool { return len(members) < familySize })
	return byPrefix
}

// A check that finds nothing proves nothing.
func TestFamilies(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string][]string{"grou": {"group", "group_claims", "groupcycle"}, "bind": {"bindinggroup", "bindings", "bindingwait"}},
		families([]string{"group_claims", "group", "prebind", "prefilter", "preenqueue", "groupcycle", "bindings", "bindinggroup", "claim", "claims", "doc", "bindingwait"}))
}
