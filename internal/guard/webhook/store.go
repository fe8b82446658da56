package webhook

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// The keys of the Secret. The next authority is already trusted, and signs after its promotion.
const (
	certKey, privateKey         = "ca.crt", "ca.key"
	nextCertKey, nextPrivateKey = "next.crt", "next.key"
	// The previous authority is trusted while servers may still show its certificates.
	previousCertKey = "previous.crt"
)

// promotion is the least age at which a new authority signs: by then, API servers must trust it. They notice changes
// of webhook configurations within seconds.
const promotion = time.Hour

// store keeps the authorities in a Secret.
type store struct {
	client          kubernetes.Interface
	namespace, name string
}

// authorities are the contents of the Secret: the signing authority, and the trusted ones (in PEM).
type authorities struct {
	signing *authority
	trusted []byte
}

// current returns the authorities, after creating, renewing and promoting them as needed. If several processes do so
// at once, the server accepts the first one's write.
func (s *store) current(ctx context.Context, now time.Time) (*authorities, error) {
	secrets := s.client.CoreV1().Secrets(s.namespace)
	secret, err := secrets.Get(ctx, s.name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return nil, fmt.Errorf("read the guard's certificate authority from Secret %s/%s: %w", s.namespace, s.name, err)
	}
	if missing {
		secret = &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}, Type: v1.SecretTypeOpaque}
	}
	before := secret.DeepCopy()
	found, err := renew(ctx, secret, now)
	if err != nil {
		return nil, err
	}
	switch {
	case missing:
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	case !maps.EqualFunc(before.Data, secret.Data, bytes.Equal):
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("store the guard's certificate authority in Secret %s/%s: %w", s.namespace, s.name, err)
	}
	return found, nil
}

// renew brings the data of a Secret up to date and returns the resulting authorities.
func renew(ctx context.Context, secret *v1.Secret, now time.Time) (*authorities, error) {
	if secret.Data == nil {
		secret.Data = make(map[string][]byte)
	}
	data := secret.Data
	signing, err := parseAuthority(data[certKey], data[privateKey])
	if err != nil || !now.Before(signing.certificate.NotAfter) {
		if len(data[certKey]) > 0 {
			klog.FromContext(ctx).Error(err, "The guard's certificate authority is of no use; making another one", "secret", klog.KObj(secret))
		}
		if signing, err = newAuthority(now); err != nil {
			return nil, err
		}
		clear(data)
		if data[certKey], data[privateKey], err = signing.pem(); err != nil {
			return nil, err
		}
	}
	if signing, err = rotate(data, signing, now); err != nil {
		return nil, err
	}
	bundle, err := trusted(data[certKey], data[nextCertKey], data[previousCertKey])
	return &authorities{signing, bundle}, err
}

// rotate creates a new authority when one is due, and makes it sign when API servers know it.
func rotate(data map[string][]byte, signing *authority, now time.Time) (*authority, error) {
	if !isDue(signing.certificate, now) {
		return signing, nil
	}
	next, err := parseAuthority(data[nextCertKey], data[nextPrivateKey])
	if err != nil {
		if next, err = newAuthority(now); err != nil {
			return nil, err
		}
		data[nextCertKey], data[nextPrivateKey], err = next.pem()
		return signing, err
	}
	if now.Sub(next.certificate.NotBefore.Add(clockSkew)) < promotion {
		return signing, nil
	}
	data[previousCertKey] = data[certKey]
	data[certKey], data[privateKey] = data[nextCertKey], data[nextPrivateKey]
	delete(data, nextCertKey)
	delete(data, nextPrivateKey)
	return next, nil
}
