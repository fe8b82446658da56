package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// varying stands for a part of a message that differs from case to case.
const varying = "…"

var (
	// firstCell is the first column of a table's row, and quoted what it quotes.
	firstCell = regexp.MustCompile("(?m)^\\| ((?:`[^`\n]+` ?)+)\\|")
	quoted    = regexp.MustCompile("`([^`\n]+)`")
	// verb is a formatting verb.
	verb = regexp.MustCompile(`%[-+# 0]*[0-9]*(?:\.[0-9]+)?[a-zA-Z]`)
	// repeated is what stands for several varying parts.
	repeated = regexp.MustCompile(varying + `(?:` + varying + `)+`)
)

// The messages that docs/troubleshooting.md explains are those that the code has.
func TestMessagesOfTroubleshooting(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	texts := textsInCode(t)
	messages := 0
	for _, row := range firstCell.FindAllStringSubmatch(string(document), -1) {
		for _, message := range quoted.FindAllStringSubmatch(row[1], -1) {
			messages++
			assert.True(t, isIn(texts, message[1]), "docs/troubleshooting.md explains %q, but no text in the code is like that", message[1])
		}
	}
	require.Greater(t, messages, 80, "the first columns of the tables have to be found")
}

// A check that finds everything proves nothing.
func TestMessageThatIsNotInTheCode(t *testing.T) {
	t.Parallel()
	texts := textsInCode(t)
	require.True(t, isIn(texts, "device class … does not exist"))
	require.False(t, isIn(texts, "device class … does exist"))
	require.False(t, isIn(texts, varying))
	require.False(t, isIn([]string{text(t, `"claim %s is " + word + "gone"`)}, "claim … is gone"))
	require.True(t, isIn([]string{text(t, `"claim %s is " + word + " gone"`)}, "claim … is … gone"))
}

// isIn reports whether one of the texts contains a message. A message that begins or ends with
// something varying is compared without that.
func isIn(texts []string, message string) bool {
	message = strings.TrimSuffix(strings.TrimPrefix(message, varying), varying)
	return message != "" && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, message) })
}

// textsInCode are all strings in the code that is not for tests, with what varies replaced.
func textsInCode(t *testing.T) []string {
	t.Helper()
	var texts []string
	isCode := func(name string) bool { return filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") }
	for _, folder := range []string{"pkg", "internal", "cmd"} {
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			continue
		}
		for path, source := range filesOf(t, filepath.Join(root, folder), isCode) {
			file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
			require.NoError(t, err)
			texts = append(texts, textsIn(file)...)
		}
	}
	require.Greater(t, len(texts), 1000)
	return texts
}

// textsIn are the strings of a piece of code. Those that are put together with "+" are one.
func textsIn(code ast.Node) []string {
	var texts []string
	ast.Inspect(code, func(node ast.Node) bool {
		expression, ok := node.(ast.Expr)
		if !ok {
			return true
		}
		switch expression.(type) {
		case *ast.BasicLit, *ast.BinaryExpr:
			if text := repeated.ReplaceAllString(joined(expression), varying); strings.Trim(text, varying+" ") != "" {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// joined is the string that an expression makes.
func joined(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return verb.ReplaceAllString(text, varying)
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return joined(e.X) + joined(e.Y)
		}
	}
	return varying
}

// text is the only string in an expression.
func text(t *testing.T, source string) string {
	t.Helper()
	expression, err := parser.ParseExpr(source)
	require.NoError(t, err)
	return textsIn(expression)[0]
}
