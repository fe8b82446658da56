package web

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// follow reads server-sent events.
func follow(t *testing.T, address string) *bufio.Scanner {
	t.Helper()
	return followBy(t, http.DefaultClient, address)
}

func followBy(t *testing.T, client *http.Client, address string) *bufio.Scanner {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	return bufio.NewScanner(response.Body)
}

// next returns the next line that begins with a text.
func next(t *testing.T, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), prefix); found {
			return rest
		}
	}
	require.Fail(t, "the stream has ended", "%v; no line begins with %q", lines.Err(), prefix)
	return ""
}

func TestEvents(t *testing.T) {
	t.Parallel()
	o := objects()
	m := shown(t, o)
	server, err := Listen(m, 0)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	lines := follow(t, server.Address+"api/events?since=1")
	for i, states := range []string{"fffa", "ffff"} {
		o.Claims = o.Claims[:2:2]
		if i == 0 {
			o.Claims = append(o.Claims, b.Claim("more", b.Request("gpu", b.Driver)).Allocated("b", "gpu-3"))
		}
		show(t, m, o)
		assert.Equal(t, []string{"2", "3"}[i], next(t, lines, "id: "))
		var delta Delta
		require.NoError(t, json.Unmarshal([]byte(next(t, lines, "data: ")), &delta))
		require.Equal(t, states, tiles(t, delta.Tiles)[0].States)
	}
	require.Equal(t, "reset", next(t, follow(t, server.Address+"api/events?since=9"), "event: "))
	late := follow(t, server.Address+"api/events?since=1")
	require.Equal(t, "2", next(t, late, "id: "))
	response, err := http.Get(server.Address + "api/events?since=x")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(3 * time.Minute):
		require.Fail(t, "the server does not end while pages are open")
	}
}

// pipes is a listener without a network, for what runs in a bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if connection, open := <-p; open {
		return connection, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial is that of a client's transport.
func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p <- server
	return client, nil
}

// Streams go on for longer than reading a request may take.
func TestEventsForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := objects()
		m := shown(t, o)
		server, err := Listen(m, 0)
		require.NoError(t, err)
		require.NoError(t, server.listener.Close())
		server.http.ReadTimeout = 2 * time.Second
		connections := make(pipes)
		server.listener = connections
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(ctx) }()
		transport := &http.Transport{DialContext: connections.dial}
		t.Cleanup(transport.CloseIdleConnections)
		lines := followBy(t, &http.Client{Transport: transport}, server.Address+"api/events?since=1")
		time.Sleep(5 * server.http.ReadTimeout)
		o.Nodes[0].Spec.Unschedulable = true
		show(t, m, o)
		require.Equal(t, "2", next(t, lines, "id: "))
		stop()
		require.NoError(t, <-ended)
	})
}
