package tutorial

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a block may take: the longest one builds everything.
const patience = 15 * time.Minute

// terminal is a shell that keeps its folder and its environment from block to block.
type terminal struct {
	t     *testing.T
	shell *exec.Cmd
	in    io.WriteCloser
	out   *screen
	// scripts is a folder for the blocks, and blocks how many there were.
	scripts string
	blocks  int
	// read is how much of the output was looked at.
	read int
}

// screen is what was printed so far.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ended bool
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// after returns what was printed after the first n bytes, and whether that is all that there will be.
func (s *screen) after(n int) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text.Bytes()[n:]), s.ended
}

func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// openTerminal starts a shell in a folder. It ends with the test, with whatever it runs.
func openTerminal(t *testing.T, folder string, environment []string) *terminal {
	t.Helper()
	shell := exec.Command("bash", "--noprofile", "--norc")
	shell.Dir, shell.Env = folder, environment
	// A group of its own gets Ctrl-C together.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := shell.StdinPipe()
	require.NoError(t, err)
	out := &screen{}
	shell.Stdout, shell.Stderr = out, out
	require.NoError(t, startInterruptible(shell))
	ended := make(chan struct{})
	go func() {
		_ = shell.Wait() // How blocks end is looked at block by block.
		out.end()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			_ = syscall.Kill(-shell.Process.Pid, signal) // It may have ended.
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Second):
			}
		}
	})
	return &terminal{t: t, shell: shell, in: in, out: out, scripts: t.TempDir()}
}

// startInterruptible starts a program that Ctrl-C reaches, even where the tests run in the background of
// a script: there SIGINT is ignored, programs inherit that, and bash cannot trap it. A signal that this
// process handles is not ignored in what it starts.
func startInterruptible(program *exec.Cmd) error {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	defer signal.Stop(interrupts)
	return program.Start()
}

// begin starts a block.
func (term *terminal) begin(commands string) {
	term.t.Helper()
	term.blocks++
	script := filepath.Join(term.scripts, fmt.Sprintf("%d.sh", term.blocks))
	require.NoError(term.t, os.WriteFile(script, []byte(commands), 0o600))
	// What is printed last says that the block has ended. A command that fails ends the shell.
	_, err := fmt.Fprintf(term.in, "set -e; . '%s' </dev/null; set +e; printf '%%s\\n' '%s'\n", script, term.mark())
	require.NoError(term.t, err)
}

func (term *terminal) mark() string {
	return fmt.Sprintf("end of block %d %s", term.blocks, term.scripts)
}

// finish waits for the end of a block, and returns what it has printed since the last look.
func (term *terminal) finish(line int) string {
	term.t.Helper()
	printed := term.await(line, "its end", func(text string) bool { return strings.HasSuffix(text, term.mark()+"\n") })
	return strings.TrimSuffix(printed, term.mark()+"\n")
}

// await waits until what was printed since the last look is as wanted, and returns it.
func (term *terminal) await(line int, what string, wanted func(string) bool) string {
	term.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		text, ended := term.out.after(term.read)
		if wanted(text) {
			term.read += len(text)
			return text
		}
		if ended {
			term.t.Fatalf("docs/tutorial.md, line %d: a command has failed. It printed:\n%s", line, text)
		}
		if time.Now().After(deadline) {
			term.t.Fatalf("docs/tutorial.md, line %d: waited %v for %s. Printed was:\n%s", line, patience, what, text)
		}
	}
}

// interrupt is Ctrl-C.
func (term *terminal) interrupt() {
	term.t.Helper()
	require.NoError(term.t, syscall.Kill(-term.shell.Process.Pid, syscall.SIGINT))
}
