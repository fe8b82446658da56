package kueue

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate is the certificate of Kueue's webhooks and its own authority, with the names that Kueue expects of both. It makes
// another one unless it finds these.
type certificate struct {
	certificate, key []byte // PEM
	// folder holds the files that Kueue serves with.
	folder string
}

// newCertificate makes a certificate and writes it to files.
func newCertificate(t *testing.T) certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048) // Kueue reads no other kind of key.
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "kueue-ca"},
		DNSNames:              []string{"kueue-ca", "kueue-webhook-service." + namespace + ".svc"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0), // Kueue renews one that ends within 90 days.
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	c := certificate{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		folder:      t.TempDir(),
	}
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "tls.crt"), c.certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "tls.key"), c.key, 0o600))
	return c
}
