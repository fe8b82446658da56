package harness

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/quartermaster-dra/quartermaster/test/controlplane"
)

// ModuleFolder returns the folder of a module of others in the module cache, in the version that a module in tools pins.
func ModuleFolder(t *testing.T, module, tool string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = filepath.Join("..", "..", "tools", tool)
	var complaints strings.Builder
	command.Stderr = &complaints
	output, err := command.Output()
	require.NoError(t, err, "ask go for the folder of %s: %s", module, &complaints)
	folder := strings.TrimSpace(string(output))
	require.NotEmpty(t, folder, "%s is not in the module cache; run: go -C tools/%s mod download", module, tool)
	return folder
}

// Documented decodes the first YAML of a section of docs/neighbours.md: what users are told to write, tests use.
func Documented(t *testing.T, section string, into any) {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "neighbours.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(document), "\n## "+section+"\n")
	require.True(t, found, "there is no section %q", section)
	text, _, _ = strings.Cut(text, "\n## ")
	_, text, found = strings.Cut(text, "```yaml\n")
	require.True(t, found, "section %q has no YAML", section)
	text, _, _ = strings.Cut(text, "```")
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), into))
}

// RunBinary runs a component of others, a binary in bin, until the end of the test. It may not end before, and has to end without an
// error when it is asked to. The channel is closed when it has ended. The log is appended to a file in the cluster's folder of logs.
func (c *Cluster) RunBinary(t *testing.T, binary, log string, environment []string, arguments ...string) <-chan struct{} {
	t.Helper()
	path, err := controlplane.FindBinary(binary)
	require.NoError(t, err)
	logFile, err := os.OpenFile(filepath.Join(c.Logs, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	command := exec.Command(path, arguments...)
	command.Env = append(os.Environ(), environment...)
	command.Stdout, command.Stderr = logFile, logFile
	command.SysProcAttr = controlplane.ChildAttributes()
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = command.Wait()
	}()
	t.Cleanup(func() {
		select {
		case <-ended:
			t.Errorf("%s ended although nobody asked it to: %v; its log is %s", binary, err, logFile.Name())
			return
		default:
		}
		require.NoError(t, command.Process.Signal(syscall.SIGTERM))
		select {
		case <-ended:
			require.NoError(t, err, "%s was asked to end; its log is %s", binary, logFile.Name())
		case <-time.After(Patience):
			_ = command.Process.Kill()
			t.Errorf("%s goes on %s after it was asked to end; its log is %s", binary, Patience, logFile.Name())
		}
		require.NoError(t, logFile.Close())
	})
	return ended
}

// RunScenarios runs tests beside a component of others at the same time, each in a space of its own.
func RunScenarios(t *testing.T, scenarios map[string]func(*testing.T)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenarios[name](t)
		})
	}
}

// FreeAddress returns an address on loopback whose port was free a moment ago.
func FreeAddress(t *testing.T) *net.TCPAddr {
	t.Helper()
	address, err := freeAddress()
	require.NoError(t, err)
	return address
}

func freeAddress() (*net.TCPAddr, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr), nil
}
