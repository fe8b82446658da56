package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPluginIsWiredInOnePlace: in the plugin's package, only wire.go sets fields of the plugin and of what profiles share. A field that is set
// elsewhere may be nil for those that were made before.
func TestPluginIsWiredInOnePlace(t *testing.T) {
	t.Parallel()
	var faults []string
	forEachProductFile(t, filepath.Join(root, "pkg/plugins/quartermaster"), func(path string, files *token.FileSet, file *ast.File) {
		if filepath.Base(path) == "wire.go" {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			assign, ok := node.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for _, left := range assign.Lhs {
				if field, ok := left.(*ast.SelectorExpr); ok && (isName(field.X, "pl") || isName(field.X, "s")) {
					faults = append(faults, fmt.Sprintf("%s: sets %s; wire.go does that", files.Position(left.Pos()), field.Sel.Name))
				}
			}
			return true
		})
	})
	require.Empty(t, strings.Join(faults, "\n"))
}

// following lists the files with event handlers of informers, and why there are others than the plugin's events.go.
var following = map[string]string{
	"pkg/plugins/quartermaster/events.go":         "all handlers of the scheduler's informers",
	"internal/wiring/freed.go":                    "the scheduler around the plugin, whose queue it needs",
	"pkg/plugins/gangplacement/gangs.go":          "the other plugin, which also runs without the first",
	"internal/informer/event.go":                  "the function that the others call",
	"internal/informer/informer.go":               "the function that the others call",
	"internal/informer/factory/handlers.go":       "an informer around another",
	"internal/claims/extended/names.go":           "kube-scheduler's cache of class names, no informer",
	"internal/classicdra/negotiation/contexts.go": "PodSchedulingContexts, of old servers alone",
	"internal/gang/crd/follow.go":                 "PodGroups of a CustomResourceDefinition, which comes and goes",
	"internal/gang/crd/status/controller.go":      "pods that have ended, which the scheduler's informer leaves out",
	"internal/guard/server/holdings.go":           "the guard in a process of its own",
	"cmd/scheduler/guard.go":                      "the guard in the scheduler's process, which starts later",
	"internal/kubectl/watch.go":                   "kubectl devices",
	"internal/kubectl/web/follow.go":              "kubectl devices",
}

// TestEventsAreFollowedInOnePlace: who hears of an event, and in which order, stands in one function.
func TestEventsAreFollowedInOnePlace(t *testing.T) {
	t.Parallel()
	found := make(map[string]bool)
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		forEachProductFile(t, filepath.Join(root, folder), func(path string, _ *token.FileSet, file *ast.File) {
			ast.Inspect(file, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					method, isMethod := call.Fun.(*ast.SelectorExpr)
					if isMethod && strings.HasPrefix(method.Sel.Name, "AddEventHandler") || isCallOf(call, "informer", "Follow") || isCallOf(call, "informer", "AfterEvents") {
						found[strings.TrimPrefix(path, root+"/")] = true
					}
				}
				return true
			})
		})
	}
	for path := range found {
		require.Contains(t, following, path, "handlers of informers are registered in pkg/plugins/quartermaster/events.go")
	}
	for path, why := range following {
		require.True(t, found[path], "%s (%s) registers no handler any more", path, why)
	}
}

// forEachProductFile calls a function with each Go file of a folder that is not a test.
func forEachProductFile(t *testing.T, folder string, look func(path string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || slices.Contains(strings.Split(path, "/"), "testdata") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		look(path, files, file)
		return nil
	}))
}

// knowingSchedulerPlugins lists the files outside internal/gang/crd that know PodGroups of scheduler-plugins, and what for. On the day that the
// PodGroups of Kubernetes are on everywhere, the folder goes, and these files lose what they have from it.
var knowingSchedulerPlugins = map[string]string{
	"pkg/plugins/gangplacement/gangs.go":        "since when a gang waits",
	"pkg/plugins/gangplacement/queuesort.go":    "pods of a gang are next to each other in the queue",
	"pkg/plugins/quartermaster/wire.go":         "makes the coordinator",
	"pkg/plugins/quartermaster/shared.go":       "has the coordinator",
	"pkg/plugins/quartermaster/gang.go":         "plans gangs",
	"pkg/plugins/quartermaster/preempt_gang.go": "evicts pods for gangs",
	"pkg/plugins/quartermaster/reserve.go":      "a pod with a place in a plan",
	"pkg/plugins/quartermaster/prebind.go":      "a pod with a place in a plan",
	"pkg/plugins/quartermaster/preempt_pod.go":  "keeps nominations while the gang has a plan",
	"pkg/plugins/quartermaster/release.go":      "stirs the gang of a preemptor",
	"pkg/plugins/quartermaster/turns.go":        "does not hold pods of gangs",
	"internal/preemption/forgroup.go":           "evicts gangs whole",
	"internal/preemption/forgang.go":            "evicts gangs whole",
	"internal/preemption/nominations.go":        "nominations of a gang end together",
}

// TestGangsOfSchedulerPluginsCanBeDeleted: planning, search and PodGroups of Kubernetes do without internal/gang/crd.
func TestGangsOfSchedulerPluginsCanBeDeleted(t *testing.T) {
	t.Parallel()
	found := make(map[string]bool)
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		forEachProductFile(t, filepath.Join(root, folder), func(path string, _ *token.FileSet, file *ast.File) {
			path = strings.TrimPrefix(path, root+"/")
			for _, imported := range file.Imports {
				if strings.Contains(imported.Path.Value, "/internal/gang/crd") && !strings.HasPrefix(path, "internal/gang/crd/") {
					found[path] = true
				}
			}
		})
	}
	for path := range found {
		require.Contains(t, knowingSchedulerPlugins, path, "it imports internal/gang/crd")
	}
	for path, why := range knowingSchedulerPlugins {
		require.True(t, found[path], "%s (%s) does not import internal/gang/crd any more", path, why)
	}
}
