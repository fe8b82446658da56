package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/quartermaster-dra/quartermaster/"
	root   = "../.."
	// maxLines is "about 400": what a reader can still take in.
	maxLines = 400
)

// goPackage is the part of `go list -json` that matters here.
type goPackage struct {
	ImportPath, Dir, Name, Doc string
	GoFiles, Imports           []string
}

// product is what is built and shipped.
var product = []string{"./cmd/...", "./internal/...", "./pkg/..."}

// packages lists packages of the module.
func packages(t *testing.T, patterns ...string) (all []goPackage) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Dir,Name,Doc,GoFiles,Imports"}, patterns...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}

// imports returns, for each package of the module, the packages of the module that it imports (tests not counted). Both without
// the module's path.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	result := make(map[string][]string)
	for _, p := range packages(t, product...) {
		name := strings.TrimPrefix(p.ImportPath, module)
		result[name] = []string{}
		for _, imported := range p.Imports {
			if own, found := strings.CutPrefix(imported, module); found {
				result[name] = append(result[name], own)
			}
		}
	}
	return result
}

// tableRow is a row of the table in docs/design/architecture.md: rooms, which are packages with those below them, and the rooms that
// they import.
type tableRow struct{ rooms, imports []string }

// documented reads the table.
func documented(t *testing.T) (rows []tableRow) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "design", "architecture.md"))
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\|((?: `(?:pkg|internal)/[a-z0-9/]+`)+) \\|[^|]*\\|[^|]*\\|([^|]*)\\|$")
	name := regexp.MustCompile("`((?:pkg|internal)/[a-z0-9/]+)`")
	names := func(cell string) (all []string) {
		for _, match := range name.FindAllStringSubmatch(cell, -1) {
			all = append(all, match[1])
		}
		return all
	}
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, tableRow{names(match[1]), names(match[2])})
	}
	require.NotEmpty(t, rows, "the table must be found")
	return rows
}

// TestImportsAreThoseOfTheTable compares the imports between rooms with the table, in which each row may import rows above it.
func TestImportsAreThoseOfTheTable(t *testing.T) {
	rows, rowOf := documented(t), map[string]int{}
	for i, row := range rows {
		for _, room := range row.rooms {
			rowOf[room] = i
		}
	}
	roomOf := func(name string) (string, bool) {
		for room := name; room != "."; room = path.Dir(room) {
			if _, found := rowOf[room]; found {
				return room, true
			}
		}
		return "", false
	}
	actual := make([][]string, len(rows))
	for name, imported := range imports(t) {
		if strings.HasPrefix(name, "cmd/") {
			continue
		}
		room, found := roomOf(name)
		require.True(t, found, "%s is in none of the rooms of the table", name)
		for _, other := range imported {
			otherRoom, found := roomOf(other)
			require.True(t, found, "%s imports %s, which is in none of the rooms of the table", name, other)
			i, j := rowOf[room], rowOf[otherRoom]
			require.LessOrEqual(t, j, i, "%s must only import rooms above its own in the table, and imports %s", name, other)
			if i != j && !slices.Contains(actual[i], otherRoom) {
				actual[i] = append(actual[i], otherRoom)
			}
		}
	}
	for i, row := range rows {
		require.ElementsMatch(t, row.imports, actual[i], "imports of %s", row.rooms)
	}
}

// What is about one feature is tied to the rest by the plugin alone.
func TestFeaturesDoNotKnowEachOther(t *testing.T) {
	actual := imports(t)
	features := []string{"internal/claims/binding", "internal/commit/conflicts", "internal/commit/foreign", "internal/claims/extended", "internal/gang/workload", "internal/queue"}
	for _, name := range features {
		require.NotEmpty(t, actual[name], "%s has to be found", name)
		for _, other := range append(features, "pkg/plugins/quartermaster") {
			require.NotContains(t, actual[name], other, "imports of %s", name)
		}
	}
}

func TestPurePackagesKnowNoClients(t *testing.T) {
	forbidden := regexp.MustCompile(`^k8s\.io/(client-go|kubernetes|apiserver|kube-scheduler)/|/quartermaster/internal/kube(/|$)`)
	pure := packages(t, "./internal/commit/protocol", "./internal/bitset", "./internal/attribute", "./internal/gang/search", "./internal/gang/domain", "./internal/gang/devices",
		"./pkg/inventory", "./pkg/selector", "./pkg/ledger", "./pkg/allocator/...")
	for _, p := range pure {
		for _, imported := range p.Imports {
			require.NotRegexp(t, forbidden, imported, "imported by %s", p.ImportPath)
			// The evaluator has the clock for whoever gives it a budget; verdicts do not depend on it.
			if !strings.HasSuffix(p.ImportPath, "/pkg/selector") {
				require.NotEqual(t, "time", imported, "%s must not look at a clock", p.ImportPath)
			}
		}
	}
	require.Len(t, pure, 16)
}

func TestFilesAreSmall(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "node_modules"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		checked++
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.LessOrEqual(t, bytes.Count(content, []byte("\n")), maxLines, "%s is too long: it should be about one concern", file)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, checked, 50)
}
