package selector

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/dynamic-resource-allocation/cel"
)

// truth is the value of an expression as far as the driver of a device determines it.
type truth int

const (
	isFalse truth = iota - 1
	unknown
	isTrue
)

// driverTest is the part of an expression that tests device.driver. It is immutable; nil means that the
// expression has no such part.
type driverTest struct {
	operator string   // one of operators, "" for a test of the name
	names    []string // the names that pass
	parts    []*driverTest
}

// MayMatch reports whether the set may match a device of the driver. It returns false if an expression
// excludes all of them, as device.driver == "gpu.example.com" excludes devices of other drivers.
func (e *Evaluator) MayMatch(s Set, driver string) bool {
	for i := range s.size() {
		if e.compile(s.expression(i)).driver.of(driver) == isFalse {
			return false
		}
	}
	return true
}

// driverTestOf returns the test of the driver in an expression.
func driverTestOf(program *cel.CompilationResult) *driverTest {
	parsed := parse(program)
	if parsed == nil {
		return nil
	}
	return driverTestIn(parsed)
}

func driverTestIn(e ast.Expr) *driverTest {
	if e.Kind() != ast.CallKind || e.AsCall().IsMemberFunction() {
		return nil
	}
	call := e.AsCall()
	switch operator, args := call.FunctionName(), call.Args(); operator {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		t := &driverTest{operator: operator}
		for _, arg := range args {
			t.parts = append(t.parts, driverTestIn(arg))
		}
		if !slices.ContainsFunc(t.parts, func(part *driverTest) bool { return part != nil }) {
			return nil
		}
		return t
	case operators.Equals, operators.NotEquals:
		if len(args) != 2 {
			return nil
		}
		name, is := literal(args[1])
		asked := args[0]
		if !is {
			name, is = literal(args[0])
			asked = args[1]
		}
		if !is || !isDriver(asked) {
			return nil
		}
		t := &driverTest{names: []string{name}}
		if operator == operators.NotEquals {
			return &driverTest{operator: operators.LogicalNot, parts: []*driverTest{t}}
		}
		return t
	case operators.In:
		if len(args) != 2 || !isDriver(args[0]) || args[1].Kind() != ast.ListKind {
			return nil
		}
		t := &driverTest{}
		for _, element := range args[1].AsList().Elements() {
			name, is := literal(element)
			if !is {
				return nil
			}
			t.names = append(t.names, name)
		}
		return t
	}
	return nil
}

func literal(e ast.Expr) (text string, is bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, is = e.AsLiteral().Value().(string)
	return text, is
}

func isDriver(e ast.Expr) bool {
	device, name, is := member(e)
	return is && name == "driver" && device.Kind() == ast.IdentKind && isDevice(device.AsIdent())
}

// of evaluates the test for devices of a driver. As in CEL, an operand that fails does not matter to "and"
// and "or" if another operand decides.
func (t *driverTest) of(driver string) truth {
	switch {
	case t == nil:
		return unknown
	case t.operator == "":
		if slices.Contains(t.names, driver) {
			return isTrue
		}
		return isFalse
	case t.operator == operators.LogicalNot:
		return -t.parts[0].of(driver)
	}
	decides, otherwise := isFalse, isTrue
	if t.operator == operators.LogicalOr {
		decides, otherwise = isTrue, isFalse
	}
	for _, part := range t.parts {
		switch part.of(driver) {
		case decides:
			return decides
		case unknown:
			otherwise = unknown
		}
	}
	return otherwise
}
