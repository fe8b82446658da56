package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of releases in test/compat/releases.md has those of "make test-compat" and the current one, in
// that order, and each row names the tests that its cells rely on. Whether the cells are
// true, hack/check-release-table finds out when the tests have run.
func TestReleasesOfTheTable(t *testing.T) {
	t.Parallel()
	rows := releaseTable(t, "test/compat/releases.md")
	var columns []string
	for _, release := range strings.Fields(textMatch(t, "Makefile", `(?m)^COMPAT_RELEASES \?= (.*)$`)) {
		columns = append(columns, release[:strings.LastIndex(release, ".")])
	}
	columns = append(columns, "1."+textMatch(t, "go.mod", `(?m)^\tk8s\.io/kubernetes v1\.(\d+)\.`))
	require.Equal(t, columns, rows[0][1:len(rows[0])-1])

	files, ofCompat := testFiles(t), regexp.MustCompile(`(?m)^package (compat|upgrade)$`)
	for _, row := range rows[2:] {
		require.Len(t, row, len(rows[0]), row[0])
		tests := testName.FindAllStringSubmatch(row[len(row)-1], -1)
		require.NotEmpty(t, tests, "row %q names no test", row[0])
		for _, test := range tests {
			require.True(t, slices.ContainsFunc(files[test[1]], ofCompat.MatchString), "%s of row %q has to be in test/compat", test[1], row[0])
		}
		for i, cell := range row[1 : len(row)-1] {
			require.NotEmpty(t, cell, "row %q, %s", row[0], columns[i])
		}
	}
}

// The table for users claims nothing that no test covers: its rows are rows of the table with tests.
func TestReleasesForUsers(t *testing.T) {
	t.Parallel()
	tested := make(map[string]bool)
	for _, row := range releaseTable(t, "test/compat/releases.md") {
		tested[strings.Join(row[:len(row)-1], "|")] = true
	}
	for _, row := range releaseTable(t, "docs/api-versions.md") {
		require.True(t, tested[strings.Join(row, "|")], "test/compat/releases.md has no row %q", row)
	}
}

// releaseTable returns the cells of the table in a document, from the header on.
func releaseTable(t *testing.T, path string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n| | 1.")
	require.True(t, found, "the header of the table has to begin with the first release")
	table, _, _ := strings.Cut("| | 1."+rest, "\n\n")
	var rows [][]string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	require.Greater(t, len(rows), 10)
	return rows
}

// textMatch returns the only submatch of an expression in a file.
func textMatch(t *testing.T, path, expression string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	match := regexp.MustCompile(expression).FindStringSubmatch(string(text))
	require.Len(t, match, 2, "%s has to match %s", path, expression)
	return match[1]
}
