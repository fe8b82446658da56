package architecture

import (
	"fmt"
	"os"
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

// promise is a row of docs/design/tests.tsv: a page, what it promises, and the tests that check it.
type promise struct{ page, text, tests string }

// promises reads the table.
func promises(t *testing.T) (rows []promise) {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(root, "docs", "design", "tests.tsv"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(table), "\n"), "\n")
	require.Equal(t, "page\tpromise\tchecked by", lines[0])
	for number, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		require.Len(t, cells, 3, "row %d of docs/design/tests.tsv: %q", number+2, line)
		rows = append(rows, promise{cells[0], cells[1], cells[2]})
	}
	return rows
}

// TestPromisesHaveTests: each row of docs/design/tests.tsv names a page that exists, and a test. Only rows about upstream's tests
// may give a reason instead.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	rows := promises(t)
	require.Greater(t, len(rows), 200)
	for _, row := range rows {
		require.NotEmpty(t, row.text, "a promise of %s", row.page)
		require.NotEmpty(t, row.tests, row.text)
		if row.page != "upstream" {
			assert.FileExists(t, filepath.Join(root, row.page), "the promise %q is of this page", row.text)
			assert.Regexp(t, testName, row.tests, "%s: %s", row.page, row.text)
		}
	}
}

// TestDocumentsNameTestsThatExist: renamed and removed tests and benchmarks have to be renamed and removed in documents as well.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	texts := documents(t)
	for _, row := range promises(t) {
		texts["docs/design/tests.tsv"] += row.tests + "\n"
	}
	files := testFiles(t)
	for path, text := range texts {
		for _, fault := range namesOfNoTest(files, text) {
			t.Errorf("%s %s", path, fault)
		}
	}
}

// TestNamesOfNoTest: the check finds names without a function and subtests without a text.
func TestNamesOfNoTest(t *testing.T) {
	t.Parallel()
	files := map[string][]string{"TestA": {`{name: "one of two"}`}}
	require.Empty(t, namesOfNoTest(files, "`TestA`, `TestA/one of two` and TestB"))
	require.Equal(t, []string{
		"names TestB, and no such test exists",
		`names TestA/three, and no file with TestA has the text "three"`,
	}, namesOfNoTest(files, "`TestB`, `TestA/three`"))
}

// namesOfNoTest returns what is wrong with the names of tests in a text.
func namesOfNoTest(files map[string][]string, text string) (faults []string) {
	for _, name := range testName.FindAllStringSubmatch(text, -1) {
		switch {
		case len(files[name[1]]) == 0:
			faults = append(faults, "names "+name[1]+", and no such test exists")
		case name[2] != "" && !mentions(files[name[1]], name[2]):
			faults = append(faults, fmt.Sprintf("names %s/%s, and no file with %s has the text %q", name[1], name[2], name[1], name[2]))
		}
	}
	return faults
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
