package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// interval is the interval of the checks whether a renewal is due or was done by another process.
const interval = time.Minute

// Certs is the certificate of this process. It implements
// dynamiccertificates.CertKeyContentProvider, so that a server takes a new one without a restart.
type Certs struct {
	store store
	hosts []string
	clock clock.PassiveClock

	mutex       sync.Mutex
	trusted     []byte
	signedBy    *x509.Certificate
	certificate *x509.Certificate
	certPEM     []byte
	keyPEM      []byte
	listeners   []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = &Certs{}

// New returns a certificate for a server with the given names or addresses, from the authority in a Secret. It
// creates the Secret if there is none.
func New(ctx context.Context, client kubernetes.Interface, namespace, secret string, hosts ...string) (*Certs, error) {
	c := &Certs{store: store{client, namespace, secret}, hosts: hosts, clock: clock.RealClock{}}
	// Another process may have written the Secret first; the second attempt finds it.
	err := c.refresh(ctx)
	if err != nil {
		err = c.refresh(ctx)
	}
	return c, err
}

// Run renews certificates until the context ends.
func (c *Certs) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.refresh(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot see whether the guard's certificate has to be renewed; trying again")
		}
	}, interval)
}

// refresh loads the Secret, and renews the certificate if that is due.
func (c *Certs) refresh(ctx context.Context) error {
	found, err := c.store.current(ctx, c.clock.Now())
	if err != nil {
		return err
	}
	listeners, err := c.take(found)
	for _, listener := range listeners {
		listener.Enqueue()
	}
	return err
}

// take uses the authorities. It returns the listeners to notify of a new certificate.
func (c *Certs) take(found *authorities) ([]dynamiccertificates.Listener, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.trusted = found.trusted
	if c.certificate != nil && !isDue(c.certificate, c.clock.Now()) && found.signing.certificate.Equal(c.signedBy) {
		return nil, nil
	}
	certificate, certPEM, keyPEM, err := found.signing.serving(c.hosts, c.clock.Now())
	if err != nil {
		return nil, fmt.Errorf("renew the guard's certificate: %w", err)
	}
	c.certificate, c.signedBy, c.certPEM, c.keyPEM = certificate, found.signing.certificate, certPEM, keyPEM
	return c.listeners, nil
}

// CABundle returns the authorities that clients must trust, in PEM.
func (c *Certs) CABundle() []byte {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return bytes.Clone(c.trusted)
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (c *Certs) Name() string { return "guard-serving-certificate" }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (c *Certs) CurrentCertKeyContent() (certificate, key []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.certPEM, c.keyPEM
}

// AddListener implements dynamiccertificates.Notifier.
func (c *Certs) AddListener(listener dynamiccertificates.Listener) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.listeners = append(c.listeners, listener)
}
