package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
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
	ImportPath string
	Imports    []string
}

// imports returns, for each package of the module, the packages of the module that
// it imports (tests not counted). Both without the module's path. Packages below another
// one are part of it if they are imported there.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./cmd/...", "./internal/...", "./pkg/...", "./test/controlplane")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	result := make(map[string][]string)
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return result
		} else {
			require.NoError(t, err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		result[name] = []string{}
		for _, imported := range p.Imports {
			if own, found := strings.CutPrefix(imported, module); found && !strings.HasPrefix(own, name+"/") {
				result[name] = append(result[name], own)
			}
		}
	}
}

// documented reads the package table: for each package, the imports it names.
func documented(t *testing.T) (order []string, allowed map[string][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `((?:pkg|internal|test)/[a-z0-9/]+)` \\|[^|]*\\|[^|]*\\|([^|]*)\\|$")
	name := regexp.MustCompile("`((?:pkg|internal|test)/[a-z0-9/]+)`")
	allowed = make(map[string][]string)
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		order = append(order, match[1])
		allowed[match[1]] = []string{}
		for _, imported := range name.FindAllStringSubmatch(match[2], -1) {
			allowed[match[1]] = append(allowed[match[1]], imported[1])
		}
	}
	require.Len(t, order, 109, "the table must be found and list all packages of the design")
	return order, allowed
}

func TestImportsAreThoseOfTheTable(t *testing.T) {
	actual := imports(t)
	order, allowed := documented(t)
	for i, name := range order {
		require.Contains(t, actual, name, "the table lists a package that does not exist")
		require.ElementsMatch(t, allowed[name], actual[name], "imports of %s", name)
		for _, imported := range actual[name] {
			require.Contains(t, order[:i], imported, "%s must only import packages above it in the table", name)
		}
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
	forbidden := regexp.MustCompile(`^k8s\.io/(client-go|kubernetes|apiserver|kube-scheduler)/`)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./internal/commit/protocol", "./internal/bitset", "./internal/attribute", "./internal/gang/search", "./internal/gang/domain", "./internal/gang/devices", "./internal/gang/coordinator", "./pkg/inventory", "./pkg/selector", "./pkg/ledger", "./pkg/allocator/...")
	cmd.Dir = root
	output, err := cmd.Output()
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(output))
	count := 0
	for ; decoder.More(); count++ {
		var p goPackage
		require.NoError(t, decoder.Decode(&p))
		for _, imported := range p.Imports {
			require.NotRegexp(t, forbidden, imported, "imported by %s", p.ImportPath)
			// The evaluator has the clock for whoever gives it a budget; verdicts do not depend on it.
			if !strings.HasSuffix(p.ImportPath, "/pkg/selector") {
				require.NotEqual(t, "time", imported, "%s must not look at a clock", p.ImportPath)
			}
		}
	}
	require.Equal(t, 25, count)
}

func TestFilesAreSmall(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "node_modules"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		checked++
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.LessOrEqual(t, bytes.Count(content, []byte("\n")), maxLines, "%s is too long: it should be about one concern", path)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, checked, 50)
}
