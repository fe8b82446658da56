package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostFunctions is how many fields with functions a struct may have. A third one makes them an interface of the domain, whose callers
// and implementations can be found.
const mostFunctions = 2

// TestCollaboratorsAreTypes: no struct has more than mostFunctions fields of a function type.
func TestCollaboratorsAreTypes(t *testing.T) {
	t.Parallel()
	structs := 0
	for _, d := range packages(t, product...) {
		for _, file := range d.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(d.Dir, file), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				named, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if fields, ok := named.Type.(*ast.StructType); ok {
					structs++
					require.LessOrEqual(t, functionFields(fields), mostFunctions, "%s: type %s: make its functions an interface", file, named.Name.Name)
				}
				return true
			})
		}
	}
	require.Greater(t, structs, 100)
}

// functionFields counts the fields of a function type.
func functionFields(fields *ast.StructType) (n int) {
	for _, field := range fields.Fields.List {
		if _, ok := field.Type.(*ast.FuncType); ok {
			n += max(1, len(field.Names))
		}
	}
	return n
}
