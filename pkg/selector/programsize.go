package selector

import (
	"regexp/syntax"
	"unsafe"

	"github.com/google/cel-go/common/ast"
	"k8s.io/dynamic-resource-allocation/cel"
)

// CEL does not report the size of a program. These bounds, in bytes, are from measurements of short and long
// expressions of all kinds, see TestProgramsTakeWhatIsCounted.
const (
	programSize        = 16 << 10
	programSizePerByte = 90
	instructionSize    = 64 // of a regular expression
)

// sizeOf returns the estimated size of a program in bytes.
func sizeOf(expression string, p *program) int {
	switch {
	case p.err != nil:
		return programSizePerByte + len(p.err.Error())
	case p.v1 == nil:
		return programSize + programSizePerByte*len(expression)
	}
	return programSize + programSizePerByte*len(expression) + patternsSize(p.v1)
}

// patternsSize returns the size of the regular expressions that are compiled with the program: a few
// characters can take megabytes.
func patternsSize(program *cel.CompilationResult) int {
	parsed := parse(program)
	if parsed == nil {
		return 0
	}
	size := 0
	ast.PostOrderVisit(parsed, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !isPatternFunction(e.AsCall().FunctionName()) {
			return
		}
		for _, arg := range e.AsCall().Args() {
			if arg.Kind() != ast.LiteralKind {
				continue
			}
			if pattern, is := arg.AsLiteral().Value().(string); is {
				size += patternSize(pattern)
			}
		}
	}))
	return size
}

func isPatternFunction(name string) bool {
	return name == "matches" || name == "find" || name == "findAll"
}

func patternSize(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	size, counted := instructionSize*len(compiled.Inst), make(map[*rune]bool)
	for i := range compiled.Inst {
		// Repetitions share the runes that they match.
		if runes := compiled.Inst[i].Rune; len(runes) > 0 && !counted[&runes[0]] {
			counted[&runes[0]] = true
			size += cap(runes) * int(unsafe.Sizeof(runes[0]))
		}
	}
	return size
}
