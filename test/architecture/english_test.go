package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// habits are turns of phrase that make a sentence hard to read, each with what to write instead. Other projects of
// this kind have next to none of them.
var habits = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{
		regexp.MustCompile(`\b(?:is|are|was|were|has|have|does|do|makes|tells|knows|says|keeps|finds|gives|shows|takes) (?:what|who|how|that which)\b`),
		`name the thing, as in "returns the pods that wait" for "is who waits"`,
	},
	{regexp.MustCompile(`\b(?:has|have) (?:an?|the|its|their|all|each|every|some|others?|another|nobody|somebody) (?:[a-z]+ )?be\b`),
		`say who does what to it, as in "makes others wait" for "has others wait"`},
	{regexp.MustCompile(`\b[Ww]hoever\b`), `name them: "the scheduler that", "any client that"`},
	{regexp.MustCompile(`\banew\b`), `"again", or "from the start"`},
	{regexp.MustCompile(`\b(?:will|would) do\b`), `"is enough", or what it does, in the present tense`},
	{regexp.MustCompile(`\bof ours\b`), `"our", or the name of the thing`},
	{regexp.MustCompile(`\b(?:of (?:which|whom)|for who)\b`), `begin another sentence, or use "with" and "whose"`},
	{regexp.MustCompile(`\b(?:that is so|has its turn|as ever|there are such)\b`), `say what is meant, with the words of Kubernetes' documentation`},
}

// TestPlainEnglish: comments and messages of the product, its tools and what its tests share begin with the thing they are about, and say one thing after
// the other.
func TestPlainEnglish(t *testing.T) {
	t.Parallel()
	isCode := func(name string) bool { return filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") }
	texts := 0
	for _, folder := range []string{"pkg", "internal", "cmd", "tools", "hack", "test"} {
		files := filesOf(t, filepath.Join(root, folder), isCode)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			found, read := hardToRead(t, name, files[name])
			texts += read
			for _, one := range found {
				t.Error(one)
			}
		}
	}
	require.Greater(t, texts, 10000, "comments and strings have to be found")
}

// TestHardToRead: the check finds each habit in comments and strings, also across the end of a line, and says where it
// is and how to mend it. It leaves code and plain sentences alone.
func TestHardToRead(t *testing.T) {
	t.Parallel()
	found, texts := hardToRead(t, "a.go", `package a

// place is what a pod gets. The
// list has what it needs. A plain sentence has a claim that can be kept.
func place() error {
	is := what // It has others be late, and tries anew.
	return errors.New("whoever wrote it will do it" +
		" again, one of ours, of which there are two")
}
`)
	require.Equal(t, 4, texts, "two comments, two parts of a string")
	var where []string
	for _, one := range found {
		where = append(where, strings.SplitN(one, "; ", 2)[0])
		require.Contains(t, one, "; instead: ")
	}
	require.ElementsMatch(t, []string{
		`a.go:3: "is what" in "place is what a pod gets. The"`,
		`a.go:4: "has what" in "list has what it needs. A plain sentence has a claim that can be kept."`,
		`a.go:6: "anew" in "It has others be late, and tries anew."`,
		`a.go:6: "has others be" in "It has others be late, and tries anew."`,
		`a.go:7: "whoever" in "whoever wrote it will do it"`,
		`a.go:7: "will do" in "whoever wrote it will do it"`,
		`a.go:8: "of ours" in "again, one of ours, of which there are two"`,
		`a.go:8: "of which" in "again, one of ours, of which there are two"`,
	}, where)
	require.Len(t, habitsIn("a.md", 1, "# A\n\nThis page is\nwhat it says. It says more.\n"), 1, "also in documents")
}

// TestPlainEnglishOfDocuments: so do documents, manifests and the chart. Code in documents is left out.
func TestPlainEnglishOfDocuments(t *testing.T) {
	t.Parallel()
	isText := func(name string) bool {
		return slices.Contains([]string{".md", ".tsv", ".yaml", ".tpl", ".txt"}, filepath.Ext(name))
	}
	read := 0
	for _, folder := range []string{"docs", "charts", "manifests", "examples", ".github"} {
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			continue
		}
		for name, text := range filesOf(t, filepath.Join(root, folder), isText) {
			read += reportHabits(t, name, text)
		}
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		read += reportHabits(t, name, string(text))
	}
	require.Greater(t, read, 30, "documents and manifests have to be found")
}

// inlineCode is a name in a sentence, such as that of a test.
var inlineCode = regexp.MustCompile("`[^`\n]*`")

// reportHabits fails the test for each habit in a document, and returns 1.
func reportHabits(t *testing.T, name, text string) int {
	t.Helper()
	blank := func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) }
	for _, one := range habitsIn(name, 1, inlineCode.ReplaceAllString(fenced.ReplaceAllStringFunc(text, blank), "``")) {
		t.Error(one)
	}
	return 1
}

// habitsIn returns the habits in a text that begins at a line of a file.
func habitsIn(name string, first int, text string) (found []string) {
	for _, habit := range habits {
		for _, match := range habit.phrase.FindAllStringIndex(strings.ReplaceAll(text, "\n", " "), -1) {
			before := strings.Count(text[:match[0]], "\n")
			found = append(found, fmt.Sprintf("%s:%d: %q in %q; instead: %s", name, first+before,
				strings.ReplaceAll(text[match[0]:match[1]], "\n", " "), strings.TrimSpace(strings.Split(text, "\n")[before]), habit.instead))
		}
	}
	return found
}

// hardToRead returns the habits in the comments and strings of a file, and their number.
func hardToRead(t *testing.T, name, source string) (found []string, texts int) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	look := func(at token.Pos, lines string) {
		texts++
		found = append(found, habitsIn(name, files.Position(at).Line, lines)...)
	}
	for _, group := range file.Comments {
		var lines []string
		for _, comment := range group.List {
			lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(comment.Text, "//"), " "))
		}
		look(group.Pos(), strings.Join(lines, "\n"))
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				look(literal.Pos(), text)
			}
		}
		return true
	})
	return found, texts
}
