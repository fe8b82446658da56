package architecture

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Readers have an evening for the pages for users, and contributors another one for those about the design.
const (
	userPages   = 14
	userWords   = 20_000
	designWords = 10_000
)

var (
	// nameOfTest and commitHash are of interest to who changes the code. Hashes have digits and letters, so numbers and words are none;
	// UIDs and digests go on with a hyphen or follow a colon.
	nameOfTest = regexp.MustCompile(`\b(?:Test|Benchmark)[A-Z][A-Za-z0-9_]*`)
	commitHash = regexp.MustCompile(`(?:^|[\s(\[,;` + "`" + `])([0-9a-f]{7,40})(?:[\s)\],;.` + "`" + `]|$)`)
)

// pages returns the documents in a folder, without those in folders below it.
func pages(t *testing.T, folder string) map[string]string {
	t.Helper()
	isPage := func(name string) bool { return filepath.Ext(name) == ".md" }
	found := make(map[string]string)
	for path, text := range filesOf(t, filepath.Join(root, folder), isPage) {
		if filepath.Dir(path) == folder {
			found[path] = text
		}
	}
	require.NotEmpty(t, found, folder)
	return found
}

func words(texts map[string]string) (number int) {
	for _, text := range texts {
		number += len(strings.Fields(text))
	}
	return number
}

// TestDocumentsAreShort: leave something out, or move figures to test/perf/results and names of tests to docs/design/tests.tsv.
func TestDocumentsAreShort(t *testing.T) {
	t.Parallel()
	users := pages(t, "docs")
	assert.LessOrEqual(t, len(users), userPages, "pages in docs")
	assert.LessOrEqual(t, words(users), userWords, "words in docs/*.md")
	assert.LessOrEqual(t, words(pages(t, "docs/design")), designWords, "words in docs/design/*.md")
}

// TestPagesForUsersAreForUsers: names of tests and commits belong in docs/design and test/perf/results.
func TestPagesForUsersAreForUsers(t *testing.T) {
	t.Parallel()
	users := pages(t, "docs")
	users["README.md"] = filesOf(t, root, func(name string) bool { return name == "README.md" })["README.md"]
	require.NotEmpty(t, users["README.md"])
	for path, text := range users {
		assert.Empty(t, forContributors(text), "%s names tests or commits", path)
	}
}

// TestForContributors: the check finds tests and commits, and nothing that only looks like one.
func TestForContributors(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"TestGuarded", "BenchmarkFit", "9d13bb7", "c6bc38b"},
		forContributors("`TestGuarded`, go test -bench BenchmarkFit\n(9d13bb7,\nc6bc38b)"))
	require.Empty(t, forContributors("Tested with 1571023 bytes, defaced, sha256:0123abc, 8f75433a-0000-4000-8000-0123456789ab, gpu-12ab34c."))
}

// forContributors returns the names of tests and the commit hashes in a text.
func forContributors(text string) []string {
	found := nameOfTest.FindAllString(text, -1)
	for _, match := range commitHash.FindAllStringSubmatch(text, -1) {
		if strings.ContainsAny(match[1], "0123456789") && strings.ContainsAny(match[1], "abcdef") {
			found = append(found, match[1])
		}
	}
	return found
}
