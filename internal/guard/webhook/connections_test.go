package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// comers is a listener at which connections come from any address.
type comers struct {
	net.Listener
	next chan net.Conn
}

func (c comers) Accept() (net.Conn, error) { return <-c.next, nil }

// from is a connection from an address.
type from struct {
	net.Conn
	remote string
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return addr(f.remote) }

func (f *from) Close() error {
	f.closed = true
	return nil
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// door has connections come and go.
type door struct {
	t     *testing.T
	all   *Connections
	come  chan net.Conn
	ports int
}

func newDoor(t *testing.T, most int) *door {
	come := make(chan net.Conn, 1)
	return &door{t: t, all: NewConnections(comers{next: come}, most), come: come}
}

// comes has a connection come, which brings a question or not.
func (d *door) comes(host string, asks bool) (*from, net.Conn) {
	d.t.Helper()
	d.ports++
	f := &from{remote: net.JoinHostPort(host, fmt.Sprint(d.ports))}
	d.come <- f
	c, err := d.all.Accept()
	require.NoError(d.t, err)
	if asks {
		d.all.asked(f.remote)
	}
	return f, c
}

func TestWhoCrowdsGoes(t *testing.T) {
	t.Parallel()
	d := newDoor(t, 6)
	server, _ := d.comes("10.0.0.1", true)
	first, _ := d.comes("fd00::7", false)
	second, _ := d.comes("fd00::7", false)
	other, _ := d.comes("10.0.0.8", false)
	fresh, _ := d.comes("10.0.0.1", false)
	_, gone := d.comes("10.0.0.9", false)
	require.NoError(t, gone.Close())
	require.NoError(t, gone.Close())
	require.Len(t, d.all.byRemote, 5)
	third, _ := d.comes("fd00::7", false)
	require.False(t, first.closed)
	fourth, _ := d.comes("fd00::7", false)
	require.True(t, first.closed, "the oldest one from the address that has most")
	fifth, _ := d.comes("fd00::7", false)
	require.True(t, second.closed)
	d.all.asked(fresh.remote)
	sixth, _ := d.comes("10.0.0.2", false)
	require.True(t, third.closed)
	d.all.asked(sixth.remote)
	for _, kept := range []*from{server, other, fresh, fourth, fifth, sixth} {
		require.False(t, kept.closed, kept.remote)
	}
	require.Len(t, d.all.byRemote, 6)
}

// A review alone does not protect a connection if all have brought some.
func TestWhoCrowdsWithQuestionsGoes(t *testing.T) {
	t.Parallel()
	d := newDoor(t, 3)
	server, _ := d.comes("10.0.0.1", true)
	first, _ := d.comes("10.0.0.7", true)
	second, _ := d.comes("10.0.0.7", true)
	d.all.asked(first.remote)
	another, _ := d.comes("10.0.0.2", false)
	require.True(t, second.closed, "the one that has not asked for longest")
	for _, kept := range []*from{server, first, another} {
		require.False(t, kept.closed, kept.remote)
	}
	require.Len(t, d.all.byRemote, 3)
}

// A flood of connections that bring nothing, or only parts of a request, does not keep other clients from being
// answered, on existing or on new connections.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const most = 16
	server := httptest.NewUnstartedServer(nil)
	connections := NewConnections(server.Listener, most)
	server.Listener, server.Config.Handler, server.EnableHTTP2 = connections, NewHandler(newDecider(), connections), true
	server.StartTLS()
	t.Cleanup(server.Close)
	require.False(t, requireAnswer(t, server.Client(), server))

	transport := server.Client().Transport.(*http.Transport)
	config := &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, ServerName: "example.com"}
	for i := range 5 * most {
		crowding, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = crowding.Close() })
		switch i % 4 {
		case 1:
			_, _ = crowding.Write([]byte{22}) // It begins a handshake.
		case 2:
			shakes(crowding, config, "")
		case 3:
			shakes(crowding, config, "POST / HTTP/1.1\r\nHost: guard\r\nContent-Length: 1000\r\n\r\n{")
		}
		if i%most == 0 {
			fresh := transport.Clone()
			t.Cleanup(fresh.CloseIdleConnections)
			require.False(t, requireAnswer(t, &http.Client{Transport: fresh}, server))
		}
	}
	connections.mutex.Lock()
	require.LessOrEqual(t, len(connections.byRemote), most)
	connections.mutex.Unlock()

	require.True(t, requireAnswer(t, server.Client(), server))
}

// shakes does a handshake and then sends something, as far as the server lets it.
func shakes(connection net.Conn, config *tls.Config, then string) {
	secure := tls.Client(connection, config)
	if err := secure.Handshake(); err == nil {
		_, _ = io.WriteString(secure, then)
	}
}

// requireAnswer requires an answer to a review of a claim that no other review is about.
func requireAnswer(t *testing.T, client *http.Client, server *httptest.Server) (reused bool) {
	t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, server.URL, strings.NewReader(string(raw(t, allocating(t, "x")))))
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	return reused
}

func TestListenerThatEnds(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := NewConnections(listener, 1)
	require.NoError(t, connections.Close())
	_, err = connections.Accept()
	require.True(t, errors.Is(err, net.ErrClosed), "%v", err)
}
