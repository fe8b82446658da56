package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNoTestAsksForAFastMachine: a test that waits for what has to happen gives up no sooner than harness.Patience, none asserts how long
// something took by the clock of the machine, and none fails at the first of several tries. What happens in a bubble of testing/synctest
// has a clock of its own.
func TestNoTestAsksForAFastMachine(t *testing.T) {
	t.Parallel()
	folders := testFolders(t)
	require.Greater(t, len(folders), 100)
	patience, known := folders[filepath.Join(root, "test/harness")].duration(&ast.Ident{Name: "Patience"})
	require.True(t, known)
	var faults []string
	for _, path := range slices.Sorted(maps.Keys(folders)) {
		faults = append(faults, folders[path].impatient(patience)...)
	}
	require.Empty(t, strings.Join(faults, "\n"))
}

// TestImpatience: what the check of all tests finds, and what it leaves alone.
func TestImpatience(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`require.Eventually(t, ok, 10*time.Second, time.Millisecond)`:                                       "x_test.go:6: gives up after 10s, sooner than after 3m0s",
		`require.Eventually(t, ok, short, time.Millisecond)`:                                                "x_test.go:6: gives up after 30s, sooner than after 3m0s",
		`require.EventuallyWithT(t, ok, time.Minute, time.Millisecond)`:                                     "x_test.go:6: gives up after 1m0s, sooner than after 3m0s",
		`require.Eventually(t, ok, 6*short, time.Millisecond)`:                                              "",
		`require.Eventually(t, func() bool { return ask(t) }, 6*short, time.Millisecond)`:                   "x_test.go:6: one try that fails ends the test",
		`require.EventuallyWithT(t, func(try *assert.CollectT) { require.True(t, a) }, 6*short, 1)`:         "x_test.go:6: one try that fails ends the test",
		`require.EventuallyWithT(t, func(try *assert.CollectT) { require.True(try, a) }, 6*short, 1)`:       "",
		`require.Eventually(t, ok, unknown(), time.Millisecond)`:                                            "",
		`select { case <-done: case <-time.After(short): t.Fatal("late") }`:                                 "x_test.go:6: gives up after 30s, sooner than after 3m0s",
		`select { case <-done: case <-time.After(short): end(); t.Error("late") }`:                          "x_test.go:6: gives up after 30s, sooner than after 3m0s",
		`select { case <-done: case <-time.After(short): again() }`:                                         "",
		`assert.Never(t, ok, time.Minute, time.Second)`:                                                     "x_test.go:6: sees nothing happen if the machine is slow",
		`require.Less(t, time.Since(start), 5*time.Minute)`:                                                 "x_test.go:6: asserts how long something took",
		`took := time.Since(start); require.LessOrEqual(t, took, 5*time.Minute)`:                            "x_test.go:6: asserts how long something took",
		`took := time.Since(start); t.Log(took)`:                                                            "",
		`synctest.Test(t, func(t *testing.T) { require.Eventually(t, ok, short, 1) })`:                      "",
		`synctest.Test(t, func(t *testing.T) { require.Equal(t, time.Minute, time.Since(start)) }); a := 1`: "",
		`synctest.Test(t, func(t *testing.T) { inside(t) })`:                                                "",
		`synctest.Test(t, func(t *testing.T) { inside(t) }); require.Zero(t, time.Since(start))`:            "x_test.go:6: asserts how long something took",
		`inside(t)`: "x_test.go:9: asserts how long something took",
		`open(t, func(t *testing.T) { require.Zero(t, time.Since(start)) }) }; func open(t *testing.T, do func(*testing.T)) { synctest.Test(t, do)`: "",
	} {
		more := ""
		if strings.Contains(code, "inside") {
			more = "func inside(t *testing.T) {\nrequire.Zero(t, time.Since(start))\n}\n"
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "x_test.go", "package x\n\nconst short = 30 * time.Second\n\nfunc TestX(t *testing.T) {\n"+code+"\n}\n"+more, 0)
		require.NoError(t, err, code)
		require.Equal(t, want, strings.Join((&testFolder{files: files, parsed: []*ast.File{file}}).impatient(3*time.Minute), "; "), code)
	}
}

// testFolder has the files of a folder that are part of tests.
type testFolder struct {
	files  *token.FileSet
	parsed []*ast.File
}

// testFolders reads all tests, and all packages that only tests have.
func testFolders(t *testing.T) map[string]*testFolder {
	t.Helper()
	folders := make(map[string]*testFolder)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, entry.Name()) {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, "_test.go") && (filepath.Ext(path) != ".go" || !strings.HasPrefix(path, filepath.Join(root, "test"))) {
			return nil
		}
		folder := folders[filepath.Dir(path)]
		if folder == nil {
			folder = &testFolder{files: token.NewFileSet()}
			folders[filepath.Dir(path)] = folder
		}
		file, err := parser.ParseFile(folder.files, path, nil, 0)
		if err != nil {
			return err
		}
		folder.parsed = append(folder.parsed, file)
		return nil
	}))
	return folders
}

// impatient returns what is wrong with the tests of a folder.
func (f *testFolder) impatient(patience time.Duration) (faults []string) {
	bubbles := f.bubbles()
	for _, file := range f.parsed {
		// took has the names of a function's variables with durations of the machine's clock.
		took := make(map[string]bool)
		ast.Inspect(file, func(node ast.Node) bool {
			fault := ""
			switch n := node.(type) {
			case *ast.FuncDecl:
				clear(took)
				if bubbles.inside[n.Name.Name] {
					return false
				}
			case *ast.CallExpr:
				if bubbles.isOne(n) {
					return false
				}
				fault = f.faultOfCall(n, took, patience)
			case *ast.CommClause:
				if limit, known := f.limitOf(n); known && limit < patience {
					fault = tooSoon(limit, patience)
				}
			case *ast.AssignStmt:
				if name, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Rhs) == 1 && isCallOf(n.Rhs[0], "time", "Since") {
					took[name.Name] = true
				}
			}
			if fault != "" {
				at := f.files.Position(node.Pos())
				faults = append(faults, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, fault))
			}
			return true
		})
	}
	return faults
}

// bubbles are the functions of a folder by how they are part of bubbles. Methods count by their names.
type bubbles struct {
	functions map[string][]*ast.FuncDecl
	// opens has those that call a function that they are given in a bubble, and inside those that are named in a bubble, and that
	// these name.
	opens, inside map[string]bool
}

func (f *testFolder) bubbles() *bubbles {
	b := &bubbles{functions: make(map[string][]*ast.FuncDecl), opens: make(map[string]bool), inside: make(map[string]bool)}
	for _, file := range f.parsed {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
				b.functions[function.Name.Name] = append(b.functions[function.Name.Name], function)
			}
		}
	}
	for known := -1; known < len(b.opens); { // One that calls one that opens a bubble may open one as well.
		known = len(b.opens)
		for name, functions := range b.functions {
			if slices.ContainsFunc(functions, b.passesOn) {
				b.opens[name] = true
			}
		}
	}
	for _, functions := range b.functions {
		for _, function := range functions {
			b.inEach(function.Body, b.enter)
		}
	}
	return b
}

// isOne reports whether a call's functions run in a bubble.
func (b *bubbles) isOne(call *ast.CallExpr) bool {
	name, ok := call.Fun.(*ast.Ident)
	return isCallOf(call, "synctest", "Test") || ok && b.opens[name.Name]
}

// inEach visits the functions that run in bubbles which a function's body makes.
func (b *bubbles) inEach(body *ast.BlockStmt, visit func(ast.Node) bool) {
	ast.Inspect(body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || !b.isOne(call) {
			return true
		}
		for _, arg := range call.Args {
			switch arg.(type) {
			case *ast.FuncLit, *ast.Ident:
				ast.Inspect(arg, visit)
			}
		}
		return false
	})
}

// passesOn reports whether a function has one of its parameters, which is a function, called in a bubble.
func (b *bubbles) passesOn(function *ast.FuncDecl) (does bool) {
	given := make(map[string]bool)
	for _, parameter := range function.Type.Params.List {
		if _, ok := parameter.Type.(*ast.FuncType); ok {
			for _, name := range parameter.Names {
				given[name.Name] = true
			}
		}
	}
	b.inEach(function.Body, func(node ast.Node) bool {
		name, ok := node.(*ast.Ident)
		does = does || ok && given[name.Name]
		return true
	})
	return does
}

// enter adds a function that is named, and those that it names.
func (b *bubbles) enter(node ast.Node) bool {
	if name, ok := node.(*ast.Ident); ok && !b.inside[name.Name] {
		for _, function := range b.functions[name.Name] {
			b.inside[name.Name] = true
			ast.Inspect(function.Body, b.enter)
		}
	}
	return true
}

func tooSoon(limit, patience time.Duration) string {
	return fmt.Sprintf("gives up after %s, sooner than after %s", limit, patience)
}

// faultOfCall is about assertions.
func (f *testFolder) faultOfCall(call *ast.CallExpr, took map[string]bool, patience time.Duration) string {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !isName(function.X, "require") && !isName(function.X, "assert") {
		return ""
	}
	switch function.Sel.Name {
	case "Never":
		return "sees nothing happen if the machine is slow"
	case "Eventually", "EventuallyWithT":
		if limit, known := f.duration(call.Args[2]); known && limit < patience {
			return tooSoon(limit, patience)
		}
		if failsAtOnce(call) {
			return "one try that fails ends the test"
		}
	case "Less", "LessOrEqual", "InDelta", "WithinDuration", "Equal", "Zero":
		for _, arg := range call.Args {
			if name, ok := arg.(*ast.Ident); isCallOf(arg, "time", "Since") || ok && took[name.Name] {
				return "asserts how long something took"
			}
		}
	}
	return ""
}

// failsAtOnce reports whether a condition that is tried again and again is given the test itself, so that its assertions cannot fail
// once and hold at the next try.
func failsAtOnce(eventually *ast.CallExpr) (does bool) {
	test, isIdent := eventually.Args[0].(*ast.Ident)
	condition, isLiteral := eventually.Args[1].(*ast.FuncLit)
	if !isIdent || !isLiteral {
		return false
	}
	ast.Inspect(condition, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		does = does || ok && slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return isName(arg, test.Name) })
		return !does
	})
	return does
}

// limitOf is when a select gives a test up.
func (f *testFolder) limitOf(clause *ast.CommClause) (limit time.Duration, known bool) {
	receive, ok := clause.Comm.(*ast.ExprStmt)
	if !ok {
		return 0, false
	}
	from, ok := receive.X.(*ast.UnaryExpr)
	if !ok || !isCallOf(from.X, "time", "After") {
		return 0, false
	}
	fails := false
	for _, statement := range clause.Body {
		ast.Inspect(statement, func(node ast.Node) bool {
			if function, ok := node.(*ast.SelectorExpr); ok {
				fails = fails || slices.Contains([]string{"Fatal", "Fatalf", "Fail", "FailNow", "Error", "Errorf"}, function.Sel.Name)
			}
			return true
		})
	}
	limit, known = f.duration(from.X.(*ast.CallExpr).Args[0])
	return limit, known && fails
}

// duration is what an expression of numbers, units and constants of the folder comes to.
func (f *testFolder) duration(expression ast.Expr) (value time.Duration, known bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		number, err := strconv.Atoi(e.Value)
		return time.Duration(number), err == nil
	case *ast.SelectorExpr:
		unit, known := map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]
		return unit, known && isName(e.X, "time")
	case *ast.BinaryExpr:
		x, knownX := f.duration(e.X)
		y, knownY := f.duration(e.Y)
		switch e.Op {
		case token.MUL:
			return x * y, knownX && knownY
		case token.ADD:
			return x + y, knownX && knownY
		}
	case *ast.Ident:
		for _, file := range f.parsed {
			if object := file.Scope.Lookup(e.Name); object != nil && object.Kind == ast.Con {
				spec := object.Decl.(*ast.ValueSpec)
				if i := slices.IndexFunc(spec.Names, func(name *ast.Ident) bool { return name.Name == e.Name }); i < len(spec.Values) {
					return f.duration(spec.Values[i])
				}
			}
		}
	}
	return 0, false
}

func isName(expression ast.Expr, name string) bool {
	found, ok := expression.(*ast.Ident)
	return ok && found.Name == name
}

// isCallOf reports whether an expression calls a function of a package.
func isCallOf(expression ast.Expr, of, name string) bool {
	call, ok := expression.(*ast.CallExpr)
	if !ok {
		return false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	return ok && isName(function.X, of) && function.Sel.Name == name
}
