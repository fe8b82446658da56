package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/webhook"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// selfSigned is a certificate that is its own authority, and its key.
func selfSigned(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	self, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, private)
	require.NoError(t, err)
	certificate, err = cert.EncodeCertificates(self)
	require.NoError(t, err)
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	require.NoError(t, err)
	return certificate, key
}

// With a file of authorities, health checks and metrics need no certificate; all other requests need one from the
// file's current authorities.
func TestClientCAFile(t *testing.T) {
	t.Parallel()
	held := ledger.New()
	held.Pools = func(inventory.PoolID) *inventory.NodePool { return nil }
	deciding := &guard.Guard{Book: guard.NewBook(held), Lease: &lease.Lease{}}
	serving, servingKey := selfSigned(t, "guard")
	provided, err := dynamiccertificates.NewStaticCertKeyContent("guard", serving, servingKey)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	info := &apiserver.SecureServingInfo{Listener: listener, Cert: provided}
	first, firstKey := selfSigned(t, "first")
	second, secondKey := selfSigned(t, "second")
	file := filepath.Join(t.TempDir(), "clients.pem")
	_, err = onlyClients(file, info, http.NotFoundHandler())
	require.ErrorContains(t, err, "(--client-ca-file)")
	replace(t, file, first)
	asked, err := onlyClients(file, info, webhook.NewHandler(deciding, nil))
	require.NoError(t, err)
	_, _, err = info.Serve(handler(deciding, asked, true), shutdownTimeout, t.Context().Done())
	require.NoError(t, err)

	get := func(path string, certificate, key []byte) int {
		config := &tls.Config{InsecureSkipVerify: true} // The guard's is not what this is about.
		if certificate != nil {
			pair, err := tls.X509KeyPair(certificate, key)
			require.NoError(t, err)
			config.Certificates = []tls.Certificate{pair}
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		response, err := client.Get("https://" + listener.Addr().String() + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	// A permitted client is told that GET is not supported.
	require.Equal(t, http.StatusMethodNotAllowed, get("/", first, firstKey))
	require.Equal(t, http.StatusUnauthorized, get("/", second, secondKey))
	require.Equal(t, http.StatusUnauthorized, get("/validate", nil, nil))
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/metrics": http.StatusOK} {
		require.Equal(t, want, get(path, nil, nil), path)
	}
	replace(t, file, second)
	require.Eventually(t, func() bool { return get("/", second, secondKey) == http.StatusMethodNotAllowed }, 3*time.Minute, 10*time.Millisecond)
	require.Equal(t, http.StatusUnauthorized, get("/", first, firstKey))
}

// replace replaces a file atomically.
func replace(t *testing.T, file string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", content, 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}
