package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListCommand(t *testing.T) {
	for command, want := range map[string]string{
		"go build -v -ldflags -s -o bin/ ./cmd/a ./cmd/b": "go list ./cmd/a ./cmd/b",
		"go build -C tools/x -v -o ../x example.com/x":    "go -C tools/x list example.com/x",
		"go -C test/perf build -v ./...":                  "go -C test/perf list ./...",
		"go -C test/perf vet -v ./...":                    "",
		"go build -race -v ./pkg":                         "go list -race ./pkg",
		"go test ./...":                                   "",
		"go":                                              "",
	} {
		got := strings.Join(listCommand(strings.Fields(command)), " ")
		got = strings.ReplaceAll(got, "-deps -e -f "+listFormat+" ", "")
		require.Equal(t, want, got, command)
	}
}

func TestState(t *testing.T) {
	start := time.Unix(1_000, 0)
	tally := newTally(start)
	require.Empty(t, tally.state(start), "there is nothing to say yet")
	tally.compiled("a")
	require.Equal(t, "1 packages compiled", tally.state(start.Add(time.Second)), "as long as nobody knows how many there are")
	tally.expect([]pkg{{"b", 1_000}})
	require.Equal(t, "1 of 2 packages compiled", tally.state(start.Add(time.Minute)), "few packages say nothing about the time")

	// a was compiled before anybody asked.
	work := []pkg{{"b", 1_000}, {"c", 1_000}, {"d", 2_000}}
	for i := range fewPackages {
		work = append(work, pkg{path: fmt.Sprint("small", i)})
	}
	tally.expect(work)
	require.Equal(t, "1 of 54 packages compiled", tally.state(start.Add(time.Second)), "nothing is known of the speed")
	tally.compiled("b")
	require.Equal(t, "2 of 54 packages compiled, about 3 min left", tally.state(start.Add(time.Minute)))
	tally.compiled("c")
	require.Equal(t, "3 of 54 packages compiled, about 60 s left", tally.state(start.Add(time.Minute)))
	tally.compiled("d")
	require.Equal(t, "4 of 54 packages compiled, some seconds left", tally.state(start.Add(time.Minute)))
}

func TestDisplay(t *testing.T) {
	var lines, terminal bytes.Buffer
	for _, d := range []*display{{out: &lines}, {out: &terminal, rewrite: true}} {
		d.state("1 of 2")
		d.state("1 of 2")
		d.pass("x.go:1: wrong")
		d.state("2 of 2")
		d.end()
	}
	require.Equal(t, "  1 of 2\nx.go:1: wrong\n  2 of 2\n", lines.String())
	require.Equal(t, "\r\x1b[K  1 of 2\r\x1b[Kx.go:1: wrong\n\r\x1b[K  2 of 2\r\x1b[K", terminal.String())
}

func TestRoomForCompilers(t *testing.T) {
	set := map[string]string{}
	require.Len(t, roomForCompilers(func(name string) string { return set[name] }), 2)
	set["GOMEMLIMIT"] = "1GiB"
	require.Empty(t, roomForCompilers(func(name string) string { return set[name] }), "what the user has set is left alone")
}

// TestBuild compiles a small module with the real go command.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/m\n\ngo 1.26.0\n")
	write("a/a.go", "package a // "+t.Name()+time.Now().String()+"\n")
	write("b/b.go", "package b\n\nimport _ \"example.com/m/a\"\n")
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Chdir(dir)

	list := stale(listCommand([]string{"go", "build", "-v", "./..."}))
	require.Len(t, list, 2)
	require.Greater(t, list[0].work, int64(perPackage), "the size of the source counts")

	var out bytes.Buffer
	require.NoError(t, run([]string{"go", "build", "-v", "./..."}, &out))
	require.NotContains(t, out.String(), "example.com/m/a", "names of packages are not passed on")
	require.Empty(t, stale(listCommand([]string{"go", "build", "-v", "./..."})), "all is in the cache")

	write("b/b.go", "package b\n\nvar x int = \"text\"\n")
	out.Reset()
	var exit *exec.ExitError
	require.ErrorAs(t, run([]string{"go", "build", "-v", "./..."}, &out), &exit, "the status of the command is passed on")
	require.Contains(t, out.String(), "b.go:3", "what is wrong is shown")
}
