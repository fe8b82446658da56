package tutorial

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestTutorial does what docs/tutorial.md asks the reader to do.
func TestTutorial(t *testing.T) {
	harness.Long(t, "it builds an image and has a registry serve it")
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "tutorial.md"))
	require.NoError(t, err)

	home := t.TempDir()
	cluster := startCluster(t, home)
	steps, err := parse(replaced(t, string(text), standIns(root, cluster.registry)))
	require.NoError(t, err)
	require.NotEmpty(t, steps)

	folder := t.TempDir()
	open := func() *terminal { return openTerminal(t, folder, environment(home, goVariables(t))) }
	first := open()
	current := first
	for i, s := range steps {
		t.Logf("step %d of %d, line %d\n%s", i+1, len(steps), s.line, s.commands)
		switch s.kind {
		case runs:
			current.begin(s.commands)
			compare(t, s, current.finish(s.line))
		case keepsRunning:
			require.NotNil(t, s.output, "line %d: without what is printed it is not known when to go on", s.line)
			current.begin(s.commands)
			current.await(s.line, "what the document shows:\n"+*s.output, func(printed string) bool { return matches(*s.output, printed) })
			current = open()
		case interrupts:
			current = first
			current.interrupt()
			compare(t, s, current.finish(s.line))
		case notRun:
		}
	}
	cluster.requireNothingLeft(t)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 1, "only the clone remains of what the tutorial makes: %v", left)
}

// compare fails the test if something else was printed than the document shows.
func compare(t *testing.T, s step, printed string) {
	t.Helper()
	t.Logf("line %d has printed\n%s", s.line, printed)
	if s.output != nil && !matches(*s.output, printed) {
		t.Fatalf("docs/tutorial.md, line %d: the document says\n%s\nbut what was printed is\n%s", s.line, *s.output, printed)
	}
}

// goVariables keep what Go has cached, since the home is another one.
func goVariables(t *testing.T) []string {
	t.Helper()
	names := []string{"GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"}
	output, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, names...)...).Output()
	require.NoError(t, err)
	values := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	require.Len(t, values, len(names))
	var variables []string
	for i, value := range values {
		variables = append(variables, fmt.Sprintf("%s=%s", names[i], value))
	}
	return variables
}
