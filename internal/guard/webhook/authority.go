package webhook

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// authorityLife and servingLife are the validity of certificates. They are renewed after two thirds of it.
	authorityLife = 3 * 365 * 24 * time.Hour
	servingLife   = 90 * 24 * time.Hour
	// clockSkew is the tolerated lag of an API server's clock.
	clockSkew = time.Hour
)

// authority is a certificate authority with its key.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newKey generates a private key.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// issue creates a certificate, signed by an authority or, without one, by itself.
func issue(template *x509.Certificate, life time.Duration, now time.Time, by *authority) (*x509.Certificate, crypto.Signer, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter, template.BasicConstraintsValid = now.Add(-clockSkew), now.Add(life), true
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

// newAuthority creates an authority that is valid from now on.
func newAuthority(now time.Time) (*authority, error) {
	certificate, key, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: fmt.Sprintf("quartermaster-guard@%d", now.Unix())},
		IsCA:    true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, authorityLife, now, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return &authority{certificate, key}, nil
}

// serving creates a certificate and its key, in PEM, for a server with the given names or addresses.
func (a *authority) serving(hosts []string, now time.Time) (certificate *x509.Certificate, certPEM, keyPEM []byte, err error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: hosts[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certificate, key, err := issue(template, servingLife, now, a)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a certificate for %v: %w", hosts, err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, nil, err
	}
	certPEM, err = cert.EncodeCertificates(certificate, a.certificate)
	return certificate, certPEM, keyPEM, err
}

// isDue reports whether a certificate must be renewed.
func isDue(certificate *x509.Certificate, now time.Time) bool {
	return now.After(certificate.NotAfter.Add(-certificate.NotAfter.Sub(certificate.NotBefore) / 3))
}

// parseAuthority parses an authority in PEM.
func parseAuthority(certPEM, keyPEM []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("it is not a certificate authority with its key")
	}
	return &authority{pair.Leaf, signer}, nil
}

// trusted returns the certificates of all authorities in PEM. It leaves out invalid bundles: API servers refuse a
// bundle with any invalid part.
func trusted(bundles ...[]byte) ([]byte, error) {
	var all []*x509.Certificate
	for _, bundle := range bundles {
		if certificates, err := cert.ParseCertsPEM(bundle); err == nil {
			all = append(all, certificates...)
		}
	}
	return cert.EncodeCertificates(all...)
}

// pem returns the authority in PEM.
func (a *authority) pem() (certPEM, keyPEM []byte, err error) {
	if certPEM, err = cert.EncodeCertificates(a.certificate); err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(a.key)
	return certPEM, keyPEM, err
}
