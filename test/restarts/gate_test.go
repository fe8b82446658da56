package restarts

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// gate is a way to the API server that can be closed: that cuts all connections, and
// what is asked then waits until the gate is open. So a client does not see that
// anything is wrong, but its watches fall behind.
type gate struct {
	server *httptest.Server
	// kubeconfig is that of a scheduler whose requests all come through the gate.
	kubeconfig string

	mutex sync.Mutex
	// opened is closed while the gate is open.
	opened chan struct{}
}

// newGate makes an open gate, until the end of the test.
func newGate(s *harness.Space) *gate {
	s.T.Helper()
	admin := cluster.ControlPlane.AdminConfig()
	transport, err := rest.TransportFor(&rest.Config{
		Host: admin.Host,
		// Who asks is up to the token in the request.
		TLSClientConfig: rest.TLSClientConfig{CAFile: admin.CAFile},
	})
	require.NoError(s.T, err)
	target, err := url.Parse(admin.Host)
	require.NoError(s.T, err)
	silent := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // Events of a watch must not wait for more.
		ErrorLog:      silent,
	}
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.pass(r.Context()) == nil {
			proxy.ServeHTTP(w, r)
		}
	}))
	g.server.Config.ErrorLog = silent
	g.server.StartTLS()
	s.T.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
	g.kubeconfig, err = s.Cluster.KubeconfigVia("gate-"+s.Name, g.server.URL, certificate)
	require.NoError(s.T, err)
	return g
}

// pass waits until the gate is open or the context is done.
func (g *gate) pass(ctx context.Context) error {
	g.mutex.Lock()
	opened := g.opened
	g.mutex.Unlock()
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close closes the gate. Requests that have passed may take effect all the same, but
// nobody hears of it.
func (g *gate) close() {
	g.mutex.Lock()
	g.opened = make(chan struct{})
	g.mutex.Unlock()
	g.server.CloseClientConnections()
}

// open lets everything pass that waits.
func (g *gate) open() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	close(g.opened)
}
