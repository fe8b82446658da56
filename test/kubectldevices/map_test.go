package kubectldevices

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl"
)

// address is what kubectl devices web prints.
var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/\S+`)

// webMap serves the map of the demo's cluster, and asks for what the page draws. What the page can do with it is the
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
	require.EventuallyWithT(t, func(try *assert.CollectT) { require.Positive(try, tiles(try, page+"api/state")) }, patience, 50*time.Millisecond, "the devices of the demo")
	stop()
	if err := <-ended; err != nil {
		require.True(t, errors.Is(err, context.Canceled), err)
	}
}

func status(t *testing.T, url string) int {
	t.Helper()
	response := get(t, url)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// tiles returns the number of tiles in the state that the page draws: nodes and other pools.
func tiles(t require.TestingT, url string) int {
	response := get(t, url)
	var state struct {
		Tiles []json.RawMessage `json:"tiles"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&state))
	require.NoError(t, response.Body.Close())
	return len(state.Tiles)
}

// get asks for a page. The caller closes the body.
func get(t require.TestingT, url string) *http.Response {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	return response
}
