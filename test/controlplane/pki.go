package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is long because nothing renews these certificates: a kept
// data folder has to work for as long as somebody plays with it.
const certificateLife = 10 * 365 * 24 * time.Hour

// keyPair names the files of a PEM certificate and its private key.
type keyPair struct{ certFile, keyFile string }

func (d dataFolder) keyPair(name string) keyPair {
	base := filepath.Join(d.pki(), name)
	return keyPair{certFile: base + ".crt", keyFile: base + ".key"}
}

// credentials are the files that identify the parts of the control plane to
// each other. They are made once per data folder; a restart reuses them, so
// that kubeconfigs handed out earlier stay valid.
type credentials struct {
	clusterCA, frontProxyCA keyPair
	apiServer               keyPair // serves 127.0.0.1 and localhost
	frontProxy              keyPair // what the API server shows to aggregated API servers
	admin, controllers      keyPair // client certificates in group system:masters
	serviceAccountKey       string  // signs and verifies service account tokens
}

func ensureCredentials(d dataFolder) (credentials, error) {
	c := credentials{
		clusterCA:         d.keyPair("ca"),
		frontProxyCA:      d.keyPair("front-proxy-ca"),
		apiServer:         d.keyPair("apiserver"),
		frontProxy:        d.keyPair("front-proxy-client"),
		admin:             d.keyPair("admin"),
		controllers:       d.keyPair("controller-manager"),
		serviceAccountKey: filepath.Join(d.pki(), "service-account.key"),
	}
	if err := os.MkdirAll(d.pki(), 0o700); err != nil {
		return c, fmt.Errorf("make the folder for certificates: %w", err)
	}
	// The signing key is written last: its presence says that all others are there.
	if _, err := os.Stat(c.serviceAccountKey); err == nil {
		return c, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("look for certificates of an earlier run: %w", err)
	}
	if err := c.create(); err != nil {
		return c, fmt.Errorf("make certificates in %s: %w", d.pki(), err)
	}
	return c, nil
}

func (c credentials) create() error {
	cluster, err := newAuthority("kubernetes-ca", c.clusterCA)
	if err != nil {
		return err
	}
	frontProxy, err := newAuthority("front-proxy-ca", c.frontProxyCA)
	if err != nil {
		return err
	}
	serving := cert.Config{
		CommonName: "kube-apiserver",
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		AltNames: cert.AltNames{
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
			IPs:      []net.IP{net.IPv4(127, 0, 0, 1)},
		},
	}
	client := func(user string, groups ...string) cert.Config {
		return cert.Config{CommonName: user, Organization: groups, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	}
	err = errors.Join(
		cluster.issue(serving, c.apiServer),
		cluster.issue(client("kubernetes-admin", "system:masters"), c.admin),
		cluster.issue(client("system:kube-controller-manager", "system:masters"), c.controllers),
		frontProxy.issue(client("front-proxy-client"), c.frontProxy),
	)
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	return writeKey(c.serviceAccountKey, key)
}

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// authorityBits is the size of an authority's RSA key. The API server verifies the certificate of a client with each request, which takes a
// third of the time that it takes with an elliptic curve.
const authorityBits = 2048

// newAuthority makes a self-signed authority and writes it to files.
func newAuthority(name string, files keyPair) (*authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, authorityBits)
	if err != nil {
		return nil, err
	}
	self, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, err
	}
	return &authority{cert: self, key: key}, writeKeyPair(files, self.Raw, key)
}

// issue makes a key and a certificate for it, and writes both to files.
func (a *authority) issue(cfg cert.Config, files keyPair) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template := x509.Certificate{
		Subject:      pkix.Name{CommonName: cfg.CommonName, Organization: cfg.Organization},
		SerialNumber: serial,
		NotBefore:    a.cert.NotBefore,
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  cfg.Usages,
		DNSNames:     cfg.AltNames.DNSNames,
		IPAddresses:  cfg.AltNames.IPs,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writeKeyPair(files, der, key)
}

func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func writeKeyPair(files keyPair, der []byte, key crypto.Signer) error {
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	pem, err := cert.EncodeCertificates(parsed)
	if err != nil {
		return err
	}
	return errors.Join(cert.WriteCert(files.certFile, pem), writeKey(files.keyFile, key))
}

func writeKey(path string, key crypto.Signer) error {
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return keyutil.WriteKey(path, pem)
}
