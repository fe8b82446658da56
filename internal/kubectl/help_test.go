package kubectl

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// commandsOf returns a command, and all visible ones below it but cobra's own.
func commandsOf(command *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{command}
	for _, sub := range command.Commands() {
		if !sub.Hidden {
			all = append(all, commandsOf(sub)...)
		}
	}
	return all
}

// TestHelp: each help has examples that parse and lines that fit, and leaves the flags of the kubeconfig to kubectl devices options.
func TestHelp(t *testing.T) {
	example := regexp.MustCompile(`(?m)^  kubectl devices ?(.*)$`)
	o, _, _ := testOptions(t)
	for _, command := range commandsOf(newRoot(o)) {
		args := strings.Fields(command.CommandPath())[2:]
		help, _, err := ask(t, server(whatif.Objects{}, "", ""), append(args, "--help")...)
		require.NoError(t, err)
		require.NotContains(t, help, "--kubeconfig", command.Name())
		require.NotContains(t, help, "--as-group", command.Name())
		require.Equal(t, command.Annotations["offline"] == "", strings.Contains(help, "--output"), command.Name())
		for line := range strings.Lines(command.Long) {
			require.LessOrEqual(t, len(line), 121, line)
		}
		found := example.FindAllStringSubmatch(command.Example, -1)
		require.NotEmpty(t, found, "%s has an example", command.Name())
		for _, one := range found {
			requireCommand(t, one[1])
		}
	}
	all, _, err := ask(t, server(whatif.Objects{}, "", ""), "options")
	require.NoError(t, err)
	for _, flag := range []string{"--kubeconfig", "--context", "--as-group", "--request-timeout"} {
		require.Contains(t, all, flag)
	}
	require.NotContains(t, all, "--output")
}

// requireCommand demands that the words after "kubectl devices" are a command with flags that it has.
func requireCommand(t *testing.T, text string) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(strings.Split(text, " |")[0], "'", ""))
	o, _, _ := testOptions(t)
	called, rest, err := newRoot(o).Find(words)
	require.NoError(t, err, text)
	if !strings.Contains(text, "'") { // A quoted argument has spaces.
		require.NoError(t, called.ParseFlags(rest), text)
	}
}

// TestCommandsOfDocuments: the commands in pages exist, with these flags.
func TestCommandsOfDocuments(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	inPage, found := regexp.MustCompile("(?m)^kubectl devices( .*)?$|`kubectl devices( [^`]*)?`"), 0
	for _, page := range append(pages, "../../README.md", "../../SUPPORT.md", "../../.github/ISSUE_TEMPLATE/bug.yml") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range inPage.FindAllStringSubmatch(string(text), -1) {
			command, _, _ := strings.Cut(match[1]+match[2], " #")
			requireCommand(t, strings.TrimSpace(command))
			found++
		}
	}
	require.Greater(t, found, 30)
}

// TestVersion: the version is Quartermaster's, and that of Kubernetes' libraries stands beside it.
func TestVersion(t *testing.T) {
	release = "v1.2.3"
	t.Cleanup(func() { release = "" })
	out, _, err := ask(t, server(whatif.Objects{}, "", ""), "version")
	require.NoError(t, err)
	require.Regexp(t, `^Version: v1\.2\.3\nKubernetes libraries: v`, out)
	out, _, err = ask(t, server(whatif.Objects{}, "", ""), "--version")
	require.NoError(t, err)
	require.Equal(t, "kubectl devices version v1.2.3\n", out)
	out, _, err = ask(t, server(whatif.Objects{}, "", ""), "version", "-o", "jsonpath={.version}")
	require.NoError(t, err)
	require.Equal(t, "v1.2.3", out)
}

// TestFormerName: the former name of fragmentation still works, and says what the new one is beside the result.
func TestFormerName(t *testing.T) {
	want, _, err := ask(t, server(rack(), "", ""), "fragmentation", "-o", "json")
	require.NoError(t, err)
	out, errOut, err := ask(t, server(rack(), "", ""), "waste", "-o", "json")
	require.NoError(t, err)
	require.Equal(t, want, out)
	require.Equal(t, "warning: kubectl devices waste is deprecated; use kubectl devices fragmentation\n", errOut)
}

// TestLabelsUnknown: without the right to list nodes, their labels select nothing.
func TestLabelsUnknown(t *testing.T) {
	_, _, err := ask(t, server(zoo(), "", "nodes"), "list", "-l", "rack")
	require.ErrorContains(t, err, "the labels of nodes are not known")
}

// TestNarrow: on a narrow terminal, texts are wrapped to its width.
func TestNarrow(t *testing.T) {
	o, out, _ := testOptions(t)
	o.screen.Terminal, o.screen.Width = true, 40
	o.wrapped("  ", strings.Repeat("word ", 30))
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(line), 41)
	}
}
