package kubectldevices

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl"
)

// address is what kubectl devices web prints.
var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/\S+`)

// webMap serves the map of the demo's cluster, and looks at it with a browser if there is one. What the page can do is the
// subject of test/webmap.
func (d *demo) webMap(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out lockedBuffer
	command := kubectl.New(genericiooptions.IOStreams{In: new(bytes.Buffer), Out: &out, ErrOut: io.Discard})
	command.SetArgs([]string{"web", "--no-browser", "--kubeconfig", d.kubeconfig})
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { return address.MatchString(out.String()) }, patience, 50*time.Millisecond)
	page := address.FindString(out.String())

	require.Equal(t, http.StatusOK, status(t, page))
	require.NotEqual(t, http.StatusOK, status(t, page[:strings.LastIndex(strings.TrimSuffix(page, "/"), "/")+1]), "without the token")
	t.Run("browser", func(t *testing.T) {
		chromium, err := exec.LookPath("chromium")
		if err != nil {
			t.Skip("there is no browser to look at the map with; on Debian, install the package chromium")
		}
		require.Eventually(t, func() bool { return summary.MatchString(dom(t, chromium, page)) }, patience, time.Second)
	})
	stop()
	if err := <-ended; err != nil {
		require.True(t, errors.Is(err, context.Canceled), err)
	}
}

// summary is what the page says once it has drawn the cluster.
var summary = regexp.MustCompile(`[0-9]+ nodes · [0-9]+ devices · [0-9]+ free`)

func status(t *testing.T, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// dom is a page after its scripts have run for some seconds.
func dom(t *testing.T, chromium, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--timeout=5000", "--dump-dom", url)
	text, err := command.Output()
	require.NoError(t, err)
	return string(text)
}
