package tutorial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A document is a list of steps, or it is refused: nothing that looks like a command is passed over.
func TestParse(t *testing.T) {
	t.Parallel()
	const sh, text, end = "```sh\n", "```text\n", "```\n"
	for name, tc := range map[string]struct {
		document string
		steps    int
		want     string
	}{
		"commands":               {document: "# A\n\n" + sh + "kubectl get pods\n" + end + "words\n\n" + text + "None.\n" + end, steps: 1},
		"without output":         {document: sh + "a\n" + end + sh + "b\n" + end, steps: 2},
		"keeps running":          {document: "<!-- keeps running; more -->\n" + sh + "a\n" + end + text + "b\n" + end + "<!-- Ctrl-C -->\n" + text + "c\n" + end, steps: 2},
		"a command in a block":   {document: sh + "kubectl get pods -A\n" + end + "`kubectl get pods` shows them.", steps: 1},
		"a name in a sentence":   {document: "`kubectl` and `trainer` and `docs/x y`"},
		"another language":       {document: "```yaml\na: b\n" + end, want: `line 1: it is not known how to run a block of "yaml"`},
		"no language":            {document: "x\n```\nkubectl get pods\n" + end, want: `block of ""`},
		"no end":                 {document: sh + "a\n", want: "line 1: the block has no end"},
		"indented":               {document: "Do this:\n\n    kubectl get pods\n", want: "line 3"},
		"indented block":         {document: "- x\n  " + sh + "  a\n  " + end, want: "line 2"},
		"tildes":                 {document: "~~~\na\n~~~\n", want: "line 1"},
		"HTML":                   {document: "<pre>kubectl</pre>", want: "line 1"},
		"unknown comment":        {document: "<!-- skip the next one -->\n" + sh + "a\n" + end, want: "line 1"},
		"output of nothing":      {document: text + "a\n" + end, want: "line 1: the output follows no commands"},
		"two outputs":            {document: sh + "a\n" + end + text + "b\n" + end + text + "c\n" + end, want: "line 7: the output follows no commands"},
		"nothing keeps running":  {document: "<!-- keeps running -->\nwords\n", want: "no block of commands follows"},
		"not run":                {document: "<!-- no test runs this block: no containers -->\n" + sh + "kubectl get pods\nkind delete cluster\n" + end, steps: 1},
		"could be run":           {document: "<!-- no test runs this block: no time -->\n" + sh + "kubectl get pods\n" + end, want: "line 2: nothing in this block needs"},
		"output of no run":       {document: "<!-- no test runs this block: no containers -->\n" + sh + "helm list\n" + end + text + "a\n" + end, want: "line 5: nobody compares"},
		"a command in sentences": {document: sh + "kubectl get pods\n" + end + "And `kubectl get nodes` as well.", want: `the command "kubectl get nodes" is in a sentence`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps, err := parse(tc.document)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Len(t, steps, tc.steps)
		})
	}
}

// As much of the document is found as its text has, counted in another way.
func TestParseFindsAllBlocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorial.md"))
	require.NoError(t, err)
	steps, err := parse(string(text))
	require.NoError(t, err)
	fences, outputs, interrupted, untested := 0, 0, 0, 0
	for _, s := range steps {
		fences++
		if s.output != nil {
			outputs++
		}
		switch s.kind {
		case interrupts:
			interrupted++
		case notRun:
			untested++
		}
	}
	require.Equal(t, strings.Count(string(text), "```")/2, fences-interrupted+outputs)
	require.Equal(t, 1, interrupted)
	require.Equal(t, 4, untested, "blocks that no test runs; the document says that they are those of kind")
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		document, printed string
		want              bool
	}{
		"equal":                 {"a  b\nc\n", "a b   \nc\n", true},
		"columns":               {"NAME AGE\n", "NAME                AGE\n", true},
		"other words":           {"a b\n", "a c\n", false},
		"in a line":             {"trainer-gpu-... 1\n", "trainer-gpu-x7h2k 1\n", true},
		"only in one line":      {"a...c\n", "a\nc\n", false},
		"lines":                 {"a\n...\nd\n", "a\nb\nc\nd\n", true},
		"no lines":              {"a\n...\nd\n", "a\nd\n", true},
		"lines at the end":      {"a\n...\n", "a\nb\n", true},
		"more than is shown":    {"a\n", "a\nb\n", false},
		"less than is shown":    {"a\nb\n", "a\n", false},
		"something before":      {"b\n", "a\nb\n", false},
		"nothing":               {"", "", true},
		"nothing shown":         {"", "a\n", false},
		"nothing printed":       {"a\n", "", false},
		"anything of nothing":   {"...\n", "", true},
		"no regular expression": {"[.*] (a)\n", "[xx] a\n", false},
		"empty lines between":   {"a\n\nb\n", "a\nb\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, matches(tc.document, tc.printed))
		})
	}
}

// A terminal keeps its folder and variables, and reads nothing of what comes next.
func TestTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, t.TempDir(), os.Environ())
	term.begin("mkdir a\ncd a\nexport X='1 2'\n")
	require.Empty(t, term.finish(1))
	term.begin("cat\necho \"$X in ${PWD##*/}\"\necho error >&2\ncat <<END\n$X\nEND\n")
	require.Equal(t, "1 2 in a\nerror\n1 2\n", term.finish(2))
	term.begin("printf 'no end of line'\n")
	require.Equal(t, "no end of line", term.finish(3))

	term.begin("trap 'echo caught; exit 0' INT\necho waits\nwhile :; do sleep 0.1; done\n")
	require.Equal(t, "waits\n", term.await(4, "waits", func(s string) bool { return s == "waits\n" }))
	term.interrupt()
	term.await(4, "caught", func(s string) bool { return strings.Contains(s, "caught") })
}

// A command that fails ends a terminal, wherever it is in a block.
func TestTerminalFails(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]string{
		"first": "false\necho on\n", "in a pipe's end": "true | false\n", "unknown": "no-such-program\n", "no end of a here-document": "if true; then\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t, t.TempDir(), os.Environ())
			term.begin(block)
			require.Eventually(t, func() bool { text, ended := term.out.after(0); return ended && !strings.Contains(text, term.mark()) }, patience, 10*time.Millisecond)
		})
	}
}
