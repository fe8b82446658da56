package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readsBothKinds lists the code that may read the two kinds of a DeviceRequest, with the reason. Everything else asks
// internal/dra, so that a third kind is added in one place.
var readsBothKinds = map[string]string{
	"internal/dra": "the place itself",
	"pkg/allocator/internal/task/task.go": "counts requests ahead to allocate memory once for most pods, and has an error of its own " +
		"for each kind that is off or unknown",
	"pkg/allocator/internal/task/request.go":      "its request has fields of both kinds that nobody else needs, and lives as long as the task",
	"pkg/allocator/internal/explain/satisfied.go": "makes claims for fewer devices to find out how many there are: it changes the count",
	"internal/api/conversion":                     "converts old versions of the API field by field",
}

// TestOnlyDRAKnowsKindsOfRequests: code that distinguishes the kinds of a request misses one sooner or later.
func TestOnlyDRAKnowsKindsOfRequests(t *testing.T) {
	t.Parallel()
	needed := make(map[string]bool)
	isCode := func(name string) bool { return filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") }
	for _, folder := range []string{"pkg", "internal", "cmd"} {
		for name, source := range filesOf(t, filepath.Join(root, folder), isCode) {
			found, allowed := kindsRead(t, source), ""
			for _, reader := range []string{name, path.Dir(name)} {
				if _, is := readsBothKinds[reader]; is {
					allowed = reader
				}
			}
			needed[allowed] = needed[allowed] || len(found) > 0
			if allowed == "" {
				assert.Empty(t, found, "%s reads the kinds of a request: use dra.Requests, dra.Alternatives or dra.ClassOf of internal/dra", name)
			}
		}
	}
	for reader := range readsBothKinds {
		assert.True(t, needed[reader], "%s reads no kinds of requests any more: remove it from readsBothKinds", reader)
	}
}

// TestKindsRead: the check sees reads of both kinds, and leaves alone what makes requests.
func TestKindsRead(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"line 3: Exactly", "line 4: FirstAvailable"}, kindsRead(t, `package a
func f(r resourceapi.DeviceRequest) {
	if r.Exactly != nil { return }
	for range r.FirstAvailable { g(resourceapi.FirstAvailableDeviceRequestMaxSize) }
	h(resourceapi.DeviceRequest{Exactly: &resourceapi.ExactDeviceRequest{}})
}`))
}

// kindsRead returns where code reads a field that only one kind of request has.
func kindsRead(t *testing.T, source string) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "a.go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		if s, is := node.(*ast.SelectorExpr); is && slices.Contains([]string{"Exactly", "FirstAvailable"}, s.Sel.Name) {
			found = append(found, fmt.Sprintf("line %d: %s", files.Position(s.Pos()).Line, s.Sel.Name))
		}
		return true
	})
	return found
}
