package kubectl

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// The map of a dump is there at the address that is printed, until the command is ended.
func TestWebOfADump(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dump.json.gz")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, whatif.WriteDump(file, whatif.Objects{Nodes: []*v1.Node{b.Node("a")}}))
	require.NoError(t, file.Close())

	var out, errOut lockedBuffer
	command := New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	command.SetArgs([]string{"web", "--from", path, "--no-browser"})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { return strings.HasSuffix(out.String(), "/\n") }, 3*time.Minute, 5*time.Millisecond)
	address := strings.TrimSpace(out.String())
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/[0-9a-f]{32}/$`, address)
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		require.Contains(try, get(try, address+"api/state"), `"source":"dump `)
	}, 3*time.Minute, 5*time.Millisecond)
	require.Contains(t, get(t, address), "<title>Devices</title>")
	stop()
	require.NoError(t, <-ended)
}

func get(t require.TestingT, address string) string {
	response, err := http.Get(address)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

func TestWebPorts(t *testing.T) {
	t.Parallel()
	command := New(genericiooptions.NewTestIOStreamsDiscard())
	command.SetArgs([]string{"web", "--port", "70000"})
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	require.ErrorContains(t, command.ExecuteContext(context.Background()), "--port is 70000; use a port from 0 to 65535")
}

// The file that leads a browser to the map contains the token: only its owner may read it, and it is removed.
func TestOpenBrowser(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	t.Setenv("PATH", "") // no browser
	remove, err := openBrowser("http://127.0.0.1:1/token/")
	require.Error(t, err)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := files[0].Info()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	remove()
	files, err = os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, files)
}
