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

// modules are those whose dependencies are chosen by us; those of test/compat are Kubernetes' own.
var modules = []string{".", "test/chart", "test/monitoring", "test/perf", "tools/descheduler", "tools/dist", "tools/driver", "tools/image", "tools/karpenter", "tools/kueue", "tools/kwok", "tools/schedulerlibrary", "tools/vulncheck"}

// TestDependencies: docs/design/dependencies.md has all direct dependencies, and no others.
func TestDependencies(t *testing.T) {
	t.Parallel()
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "design", "dependencies.md"))
	require.NoError(t, err)
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`"+`[^|]+) \|`).FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(row[1], ", ") {
			listed = append(listed, strings.Trim(name, "`"))
		}
	}
	var required []string
	for _, module := range modules {
		text, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
		require.NoError(t, err)
		required = append(required, requiredBy(string(text))...)
	}
	slices.Sort(required)
	slices.Sort(listed)
	require.Equal(t, slices.Compact(required), listed)
}

// sharing lists the modules whose packages are compiled once, with the main module's: a library in another version is compiled again, and so
// is everything that imports it.
var sharing = []string{"test/chart", "test/monitoring", "test/perf", "tools/descheduler", "tools/image", "tools/kwok"}

// TestOneVersion: modules that share compiled packages with the main module have its versions of what both require.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	ours := versionsIn(t, ".")
	for _, module := range sharing {
		for name, version := range versionsIn(t, module) {
			if ours[name] != "" {
				require.Equal(t, ours[name], version, "%s/go.mod requires %s in another version than go.mod", module, name)
			}
		}
	}
}

// versionsIn returns the versions of all modules that a go.mod requires. What replaces a version is compiled under the path of that version.
func versionsIn(t *testing.T, module string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
	require.NoError(t, err)
	versions := make(map[string]string)
	for _, required := range regexp.MustCompile(`(?m)^\t?(?:require )?([a-z][^\s]*\.[^\s]+) (v[^\s]+)(?: // indirect)?$`).FindAllStringSubmatch(string(text), -1) {
		versions[required[1]] = required[2]
	}
	return versions
}

// requiredBy returns the direct dependencies and the modules of tools, except our own.
func requiredBy(goMod string) (list []string) {
	var tools, all []string
	block := ""
	for _, line := range strings.Split(goMod, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "//"):
			continue
		case len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case fields[0] == ")":
			block = ""
			continue
		case block == "" && len(fields) > 1:
			fields, line = fields[1:], fields[0]+" "+line
		}
		isTool := block == "tool" || block == "" && strings.HasPrefix(line, "tool ")
		isRequired := block == "require" || block == "" && strings.HasPrefix(line, "require ")
		switch {
		case isTool:
			tools = append(tools, fields[0])
		case isRequired:
			all = append(all, fields[0])
			if !strings.Contains(line, "// indirect") && !strings.Contains(fields[0], "quartermaster-dra") {
				list = append(list, fields[0])
			}
		}
	}
	for _, tool := range tools {
		for _, module := range all {
			if tool == module || strings.HasPrefix(tool, module+"/") {
				list = append(list, module)
			}
		}
	}
	return list
}
