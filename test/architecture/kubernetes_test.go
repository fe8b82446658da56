package architecture

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// importers lists the files that may import k8s.io/kubernetes, with what each takes from it. That module promises no
// compatibility: a new release is met here, and in no other file.
var importers = map[string]string{
	"cmd/scheduler/command.go":                    "the command of kube-scheduler",
	"cmd/scheduler/garbage.go":                    "its configuration",
	"cmd/scheduler/guard.go":                      "its configuration",
	"cmd/scheduler/setup.go":                      "its configuration, and how a scheduler is made of it",
	"internal/kube/features.go":                   "feature gates",
	"internal/kube/framework.go":                  "pods and cycle states as the framework has them",
	"internal/kube/metrics.go":                    "metrics of kube-scheduler",
	"internal/kube/plugins.go":                    "names and profiles of plugins",
	"internal/kube/nodeallocatable/accountant.go": "the in-tree plugin, which accounts for resources of nodes",
	"internal/kube/nodeallocatable/lack.go":       "amounts as it counts them",
	"internal/kube/podgroup.go":                   "the priority of a PodGroup",
	"internal/kube/podutil/podutil.go":            "conditions of pods",
	"internal/kube/preemption/preemption.go":      "preemption",
	"internal/kube/util.go":                       "helpers of kube-scheduler",
	"internal/kubectl/files/validate.go":          "validation of objects as the API server does it",
	"internal/wiring/freed.go":                    "its queue and its cache",
	"internal/wiring/wiring.go":                   "how a scheduler is made",
	"pkg/plugins/gangplacement/plugin.go":         "the plugin TopologyPlacementGenerator",
}

// maxImporters limits the list: each of these files may need a change with each release of Kubernetes.
const maxImporters = 18

// TestImportersOfKubernetes compares the files that import k8s.io/kubernetes with the list. Tests may import it: they
// compare with upstream.
func TestImportersOfKubernetes(t *testing.T) {
	t.Parallel()
	actual := make(map[string]bool)
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		isCode := func(name string) bool { return filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") }
		for path, source := range filesOf(t, filepath.Join(root, folder), isCode) {
			if importsKubernetes(t, path, source) {
				actual[filepath.ToSlash(path)] = true
			}
		}
	}
	for name := range actual {
		require.Contains(t, importers, name, "%s imports k8s.io/kubernetes; take it from internal/kube, where it has to be added if it is missing", name)
	}
	for name := range importers {
		require.Contains(t, actual, name, "%s does not import k8s.io/kubernetes any more; take it from the list", name)
	}
	require.LessOrEqual(t, len(importers), maxImporters)
}

// TestImportsKubernetes: modules of Kubernetes that promise compatibility are something else.
func TestImportsKubernetes(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]bool{
		`import "k8s.io/kubernetes/pkg/features"`:                  true,
		`import podutil "k8s.io/kubernetes/pkg/api/v1/pod"`:        true,
		`import _ "k8s.io/kubernetes"`:                             true,
		`import "k8s.io/client-go/kubernetes"`:                     false,
		`import "k8s.io/kube-scheduler/framework"`:                 false,
		`const name = "k8s.io/kubernetes/pkg/scheduler/framework"`: false,
	} {
		require.Equal(t, want, importsKubernetes(t, "a.go", "package a\n"+source), source)
	}
}

// importsKubernetes reports whether a file imports a package of k8s.io/kubernetes.
func importsKubernetes(t *testing.T, path, source string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if imported == "k8s.io/kubernetes" || strings.HasPrefix(imported, "k8s.io/kubernetes/") {
			return true
		}
	}
	return false
}

// TestStateOfPodGroups: what upstream renames about PodGroups is in one file, and what depends on the version of their API in another.
func TestStateOfPodGroups(t *testing.T) {
	t.Parallel()
	const place, versions = "internal/kube/podgroup.go", "internal/api/podgroups.go"
	renamed := regexp.MustCompile(`\.(GetPodGroupSchedulingCycle|GetPlacementCycleState|IsPodGroupSchedulingCycle)\(|"k8s\.io/api/scheduling/v1beta1"`)
	isCode := func(name string) bool { return filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") }
	found := 0
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		for path, source := range filesOf(t, filepath.Join(root, folder), isCode) {
			names := renamed.FindAllString(source, -1)
			if filepath.ToSlash(path) == place {
				found = len(names)
				continue
			}
			if filepath.ToSlash(path) == versions {
				continue
			}
			require.Empty(t, names, "%s: the next release changes this; use what %s has", path, place)
		}
	}
	require.Equal(t, 5, found, "two states of groups, one of placements, one question, one version")
}

// TestShippedIsOptimized: what the Makefile compiles without optimization (CONTROL_PLANE) is in no program that is shipped or
// compared with ours.
func TestShippedIsOptimized(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^CONTROL_PLANE := (.+)$`).FindSubmatch(makefile)
	require.NotNil(t, line, "the Makefile has no CONTROL_PLANE")
	programs := []string{"./cmd/scheduler", "./cmd/guard", "./cmd/kubectl-devices", "k8s.io/kubernetes/cmd/kube-scheduler"}
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, programs...)...)
	list.Dir = root
	output, err := list.Output()
	require.NoError(t, err)
	packages := strings.Fields(string(output))
	require.Contains(t, packages, "k8s.io/kubernetes/pkg/scheduler")
	for _, folder := range strings.Fields(string(line[1])) {
		for _, name := range packages {
			isCompiled := strings.HasPrefix(name+"/", "k8s.io/kubernetes/"+folder+"/")
			require.False(t, isCompiled, "%s is part of %v; CONTROL_PLANE in the Makefile has %s, which is compiled without optimization", name, programs, folder)
		}
	}
}

// TestOnlyVerifyVets: go test looks at a package and at all that it imports unless it is told not to, minutes for a control plane.
// `make verify` does that for all packages.
func TestOnlyVerifyVets(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob(filepath.Join(root, "hack", "*"))
	require.NoError(t, err)
	test, none := regexp.MustCompile(`^[^#]*(\$\(GO\)|\$go)( -C \S+)? test `), regexp.MustCompile(` -(bench|fuzz|c) `)
	runs := 0
	for _, path := range append(scripts, filepath.Join(root, "Makefile")) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // A folder.
		}
		for _, line := range strings.Split(string(text), "\n") {
			if test.MatchString(line) && !none.MatchString(line) {
				runs++
				require.Contains(t, line, "-vet=off", "%s: go test would vet", path)
			}
		}
	}
	require.Greater(t, runs, 5)
}
