package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues client certificates.
type callersAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newCallersAuthority(t *testing.T, name string) *callersAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &callersAuthority{key: key}
	a.certificate, err = x509.ParseCertificate(a.signs(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, key))
	require.NoError(t, err)
	return a
}

// signs returns a certificate for a key, by the authority, or by the key itself if that is the authority's.
func (a *callersAuthority) signs(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template.SerialNumber, template.NotBefore = big.NewInt(1), time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent := a.certificate
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	require.NoError(t, err)
	return der
}

// client returns the certificate of a client, whose use and end may be changed.
func (a *callersAuthority) client(t *testing.T, change func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(template)
	}
	return &tls.Certificate{Certificate: [][]byte{a.signs(t, template, key)}, PrivateKey: key}
}

func (a *callersAuthority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Only clients with a certificate by an authority are answered, and when the authorities change, others.
func TestOnlyClientsOf(t *testing.T) {
	t.Parallel()
	of, another := newCallersAuthority(t, "api-servers"), newCallersAuthority(t, "another")
	var trusted atomic.Pointer[x509.CertPool]
	server := httptest.NewUnstartedServer(OnlyClientsOf(func() (x509.VerifyOptions, bool) {
		roots := trusted.Load()
		return x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, roots != nil
	}, NewHandler(newDecider(), nil)))
	server.EnableHTTP2, server.TLS = true, &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	asked := string(raw(t, allocating(t, "x")))
	answered := func(want int, with *tls.Certificate) {
		t.Helper()
		transport := server.Client().Transport.(*http.Transport).Clone()
		defer transport.CloseIdleConnections()
		// A client that does not care which authorities the server asks for.
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if with == nil {
				return &tls.Certificate{}, nil
			}
			return with, nil
		}
		response, err := (&http.Client{Transport: transport}).Post(server.URL, "application/json", strings.NewReader(asked))
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, want, response.StatusCode, "%s", text)
		if want == http.StatusUnauthorized {
			require.Contains(t, string(text), "by an authority in its --client-ca-file")
		}
	}
	good := of.client(t, nil)
	answered(http.StatusUnauthorized, good) // There are no authorities (yet).
	trusted.Store(of.pool())
	answered(http.StatusOK, good)
	answered(http.StatusUnauthorized, nil)
	answered(http.StatusUnauthorized, another.client(t, nil))
	answered(http.StatusUnauthorized, of.client(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
	answered(http.StatusUnauthorized, of.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }))
	trusted.Store(another.pool())
	answered(http.StatusUnauthorized, good)
	answered(http.StatusOK, another.client(t, nil))
}
