package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoTestFailsByAConflict: schedulers, controllers and kwok write to the objects of tests at any time, so no test demands that a write
// of what it has read before succeeds at the first attempt. Package harness has Update and UpdateStatus for that.
func TestNoTestFailsByAConflict(t *testing.T) {
	t.Parallel()
	folders := testFolders(t)
	var faults []string
	for _, path := range slices.Sorted(maps.Keys(folders)) {
		if strings.HasPrefix(path, filepath.Join(root, "test")) && path != filepath.Join(root, "test/simulation") { // The others have a server in memory for themselves.
			faults = append(faults, folders[path].onceOnly()...)
		}
	}
	require.Empty(t, strings.Join(faults, "\n"))
}

// TestOnceOnly: what the check of all tests finds, and what it leaves alone.
func TestOnceOnly(t *testing.T) {
	t.Parallel()
	const found = "x_test.go:4: a conflict would fail it: harness.Update and harness.UpdateStatus read and write again"
	for code, want := range map[string]string{
		`_, err = pods.Update(ctx, pod, metav1.UpdateOptions{}); require.NoError(t, err)`:                                        found,
		`node, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); require.NoError(s.T, err, "why")`: found,
		`_, err = pods.Update(ctx, pod, metav1.UpdateOptions{}); require.True(t, apierrors.IsInvalid(err))`:                      "",
		`_, err = pods.Update(ctx, pod, metav1.UpdateOptions{}); return err`:                                                     "",
		`err := table.Update(row); require.NoError(t, err)`:                                                                      "",
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "x_test.go", "package x\n\nfunc TestX(t *testing.T) {\n"+code+"\n}\n", 0)
		require.NoError(t, err, code)
		require.Equal(t, want, strings.Join((&testFolder{files: files, parsed: []*ast.File{file}}).onceOnly(), "; "), code)
	}
}

// onceOnly returns the writes of a folder's tests that a conflict fails.
func (f *testFolder) onceOnly() (faults []string) {
	for _, file := range f.parsed {
		ast.Inspect(file, func(node ast.Node) bool {
			block, ok := node.(*ast.BlockStmt)
			if !ok {
				return true
			}
			for i := range len(block.List) - 1 {
				if writes(block.List[i]) && demandsSuccess(block.List[i+1]) {
					at := f.files.Position(block.List[i].Pos())
					faults = append(faults, fmt.Sprintf("%s:%d: a conflict would fail it: harness.Update and harness.UpdateStatus read and write again", at.Filename, at.Line))
				}
			}
			return true
		})
	}
	return faults
}

// writes reports whether a statement assigns the outcome of a client's Update or UpdateStatus.
func writes(statement ast.Stmt) bool {
	assign, ok := statement.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return false
	}
	call, ok := assign.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) != 3 {
		return false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (function.Sel.Name == "Update" || function.Sel.Name == "UpdateStatus")
}

// demandsSuccess reports whether a statement fails a test by an error.
func demandsSuccess(statement ast.Stmt) bool {
	expression, ok := statement.(*ast.ExprStmt)
	return ok && (isCallOf(expression.X, "require", "NoError") || isCallOf(expression.X, "assert", "NoError"))
}
