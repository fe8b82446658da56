package v1alpha2

import "strings"

// expressionMark begins expressions of this version where expressions of v1 are expected
// (the selectors of requests). No expression that a server has accepted begins so.
const expressionMark = "\x01v1alpha2\x01"

// MarkExpression makes an expression of this version one that can be told from those of
// v1. The two have different variables.
func MarkExpression(expression string) string { return expressionMark + expression }

// CutMark returns an expression as it was given to MarkExpression, false for all others.
func CutMark(marked string) (expression string, found bool) {
	return strings.CutPrefix(marked, expressionMark)
}
