package v1alpha2

import "strings"

// expressionMark marks expressions of this version in the selectors of requests, where v1 has its own expressions. No
// valid expression begins with it.
const expressionMark = "\x01v1alpha2\x01"

// MarkExpression marks an expression of this version, to distinguish it from those of v1, which have other variables.
func MarkExpression(expression string) string { return expressionMark + expression }

// CutMark returns the expression without its mark, false for unmarked expressions.
func CutMark(marked string) (expression string, found bool) {
	return strings.CutPrefix(marked, expressionMark)
}
