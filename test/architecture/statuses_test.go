package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStatusesAreMadeInOnePlace: only internal/kube, which keeps commas out, puts reasons into the statuses of plugins.
func TestStatusesAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	isCode := func(name string) bool { return filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") }
	for _, folder := range []string{"pkg", "internal", "cmd"} {
		for path, source := range filesOf(t, filepath.Join(root, folder), isCode) {
			if strings.Contains(filepath.ToSlash(path), "internal/kube/") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, call := range reasonsGiven(file) {
				assert.Fail(t, "a reason that may have commas", "%s: %s is for internal/kube only", path, call)
			}
		}
	}
}

// A check that finds nothing proves nothing.
func TestReasonsGiven(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
var a, b, c, d, e = fwk.NewStatus(fwk.Skip), fwk.NewStatus(fwk.Skip, "x"), fwk.AsStatus(err), s.WithError(err), s.AppendReason("y")`, parser.SkipObjectResolution)
	require.NoError(t, err)
	require.Equal(t, []string{"NewStatus", "AsStatus", "WithError", "AppendReason"}, reasonsGiven(file))
}

// reasonsGiven are the calls that put a reason into a status.
func reasonsGiven(code ast.Node) (calls []string) {
	ast.Inspect(code, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is {
			return true
		}
		called, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		switch called.Sel.Name {
		case "NewStatus":
			if len(call.Args) > 1 {
				calls = append(calls, called.Sel.Name)
			}
		case "AsStatus", "WithError", "AppendReason":
			calls = append(calls, called.Sel.Name)
		}
		return true
	})
	return calls
}
