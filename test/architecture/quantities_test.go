package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const resourcePackage = "k8s.io/apimachinery/pkg/api/resource"

// calculates has the methods of resource.Quantity that may work out the digits of 1e999999999 or 0e999999999. What is left can be
// used anywhere: String, Sign, IsZero, DeepCopy, Set and the like.
var calculates = []string{"Add", "AsApproximateFloat64", "AsDec", "AsFloat64Slow", "AsInt64", "AsScale", "Cmp", "CmpInt64", "Equal",
	"MilliValue", "Mul", "RoundUp", "ScaledValue", "Sub", "ToDec", "Value"}

// mayCalculate has the packages that may calculate with quantities as they are: the one that makes it safe, and those
// whose quantities are not a tenant's.
var mayCalculate = []string{"internal/quantity", "test/builder", "test/playground", "test"}

// TestQuantitiesAreSafe: nobody calculates with a quantity of a user but by internal/quantity. One that has a billion digits
// would stop whatever waits for the result.
func TestQuantitiesAreSafe(t *testing.T) {
	if testing.Short() {
		t.Skip("it checks the types of all packages, for a quarter of a minute: make verify and make test-all run this")
	}
	t.Parallel()
	checker := newQuantityChecker(t, "./cmd/...", "./internal/...", "./pkg/...")
	checked := 0
	for _, p := range checker.own {
		name := strings.TrimPrefix(p.ImportPath, module)
		if slices.ContainsFunc(mayCalculate, func(allowed string) bool { return name == allowed || strings.HasPrefix(name, allowed+"/") }) {
			continue
		}
		checked++
		for _, found := range checker.check(t, p.ImportPath, p.files(t)...) {
			t.Error(found)
		}
	}
	require.Greater(t, checked, 50)
}

// TestQuantitiesThatAreNotSafe: the check sees each form that it forbids, and nothing else.
func TestQuantitiesThatAreNotSafe(t *testing.T) {
	t.Parallel()
	checker := newQuantityChecker(t, "./internal/quantity", "./internal/claims/write")
	const head = "package p\nimport (\n\"reflect\"\nv1 \"k8s.io/api/core/v1\"\n\"k8s.io/apimachinery/pkg/api/equality\"\n\"k8s.io/apimachinery/pkg/api/resource\"\n)\n" +
		"var _ = reflect.DeepEqual\nvar _ = equality.Semantic\nvar _ resource.Quantity\nvar _ v1.Pod\n"
	for text, bad := range map[string]bool{
		"func f(a, b resource.Quantity) bool { return a.Cmp(b) > 0 }":                              true,
		"func f(a *resource.Quantity) int64 { return a.Value() }":                                  true,
		"type q struct{ resource.Quantity }\nfunc f(a q) { a.Add(a.Quantity) }":                    true,
		"func f(a resource.Quantity) { g := a.Equal; _ = g }":                                      true,
		"var f = (*resource.Quantity).Sub":                                                         true,
		"func f(s string) { _, _ = resource.ParseQuantity(s) }":                                    true,
		"var f = resource.ParseQuantity":                                                           true,
		"func f(s string) { _ = resource.MustParse(s) }":                                           true,
		"func f(a, b *v1.Pod) bool { return equality.Semantic.DeepEqual(a, b) }":                   true,
		"func f(a, b []v1.Container) bool { return equality.Semantic.DeepEqual(a, b) }":            true,
		"func f(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }":                       true,
		"func f(a, b v1.ResourceList) bool { return equality.Semantic.DeepDerivative(a, b) }":      true,
		"func f(a resource.Quantity) string { return a.String() }":                                 false,
		"func f(a resource.Quantity) int { return a.Sign() }":                                      false,
		"var q = resource.MustParse(\"1Gi\")":                                                      false,
		"func f(a, b v1.ResourceList) bool { return reflect.DeepEqual(a, b) }":                     false, // It compares what is stored.
		"func f(a, b *v1.NodeSelector) bool { return equality.Semantic.DeepEqual(a, b) }":          false,
		"type q struct{}\nfunc (q) Value() int { return 0 }\nfunc f(a q) int { return a.Value() }": false,
	} {
		found := checker.check(t, "p", source{"p.go", []byte(head + text)})
		require.Equal(t, bad, len(found) > 0, "%s: %v", text, found)
	}
}

// listed is a package as go list describes it, with its export data.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// source is a file to check.
type source struct {
	name string
	text []byte
}

func (p listed) files(t *testing.T) []source {
	t.Helper()
	var files []source
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		require.NoError(t, err)
		files = append(files, source{strings.TrimPrefix(p.ImportPath, module) + "/" + name, text})
	}
	return files
}

// quantityChecker finds calculations with quantities in packages, by their types.
type quantityChecker struct {
	own      []listed
	files    *token.FileSet
	importer types.Importer
}

// newQuantityChecker lists packages of the module. What they import is known from export data, which the build cache has: the
// settings are those with which the Makefile builds the binaries.
func newQuantityChecker(t *testing.T, patterns ...string) *quantityChecker {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}, patterns...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	c, exports := &quantityChecker{files: token.NewFileSet()}, make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) {
			c.own = append(c.own, p)
		}
	}
	c.importer = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return c
}

// check returns where files of one package calculate with quantities.
func (c *quantityChecker) check(t *testing.T, path string, sources ...source) (found []string) {
	t.Helper()
	var files []*ast.File
	for _, s := range sources {
		file, err := parser.ParseFile(c.files, s.name, s.text, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Types: make(map[ast.Expr]types.TypeAndValue)}
	_, err := (&types.Config{Importer: c.importer}).Check(path, c.files, files, info)
	require.NoError(t, err)
	say := func(at token.Pos, what string) {
		found = append(found, fmt.Sprintf("%s: %s; internal/quantity has what takes a bounded time", c.files.Position(at), what))
	}
	constant := make(map[*ast.Ident]bool) // functions whose only argument is a constant
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			function := called(call)
			if function == nil {
				return true
			}
			constant[function] = len(call.Args) == 1 && info.Types[call.Args[0]].Value != nil
			if object := info.Uses[function]; object != nil && comparesDeeply(object) {
				for _, arg := range call.Args {
					if of := info.TypeOf(arg); mayHaveQuantity(of, make(map[types.Type]bool)) {
						say(call.Pos(), fmt.Sprintf("%s on %s compares quantities", function.Name, of))
						break
					}
				}
			}
			return true
		})
	}
	for ident, object := range info.Uses {
		function, is := object.(*types.Func)
		if !is || function.Pkg() == nil || function.Pkg().Path() != resourcePackage {
			continue
		}
		switch {
		case function.Signature().Recv() != nil:
			if named := asNamed(function.Signature().Recv().Type()); named != nil && named.Obj().Name() == "Quantity" && slices.Contains(calculates, function.Name()) {
				say(ident.Pos(), "Quantity."+function.Name())
			}
		case function.Name() == "ParseQuantity", function.Name() == "MustParse" && !constant[ident]:
			say(ident.Pos(), "resource."+function.Name())
		}
	}
	slices.Sort(found)
	return found
}

// called returns the name of the function that is called, nil if it has none.
func called(call *ast.CallExpr) *ast.Ident {
	switch function := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return function
	case *ast.SelectorExpr:
		return function.Sel
	}
	return nil
}

// comparesDeeply reports whether a function is one of the API's semantic comparisons. reflect.DeepEqual calculates nothing.
func comparesDeeply(object types.Object) bool {
	return object.Pkg() != nil && strings.HasPrefix(object.Name(), "Deep") && strings.HasPrefix(object.Pkg().Path(), "k8s.io/apimachinery/") &&
		(object.Name() == "DeepEqual" || object.Name() == "DeepEqualWithNilDifferentFromEmpty" || object.Name() == "DeepDerivative")
}

// mayHaveQuantity reports whether a value of a type may contain a quantity.
func mayHaveQuantity(of types.Type, seen map[types.Type]bool) bool {
	if seen[of] {
		return false
	}
	seen[of] = true
	if named := asNamed(of); named != nil && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == resourcePackage && named.Obj().Name() == "Quantity" {
		return true
	}
	switch of := of.Underlying().(type) {
	case *types.Pointer:
		return mayHaveQuantity(of.Elem(), seen)
	case *types.Slice:
		return mayHaveQuantity(of.Elem(), seen)
	case *types.Array:
		return mayHaveQuantity(of.Elem(), seen)
	case *types.Map:
		return mayHaveQuantity(of.Key(), seen) || mayHaveQuantity(of.Elem(), seen)
	case *types.Struct:
		for field := range of.Fields() {
			if mayHaveQuantity(field.Type(), seen) {
				return true
			}
		}
	case *types.Interface:
		return true
	}
	return false
}

func asNamed(of types.Type) *types.Named {
	if pointer, is := types.Unalias(of).(*types.Pointer); is {
		of = pointer.Elem()
	}
	named, _ := types.Unalias(of).(*types.Named)
	return named
}
