package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
)

const namespace, secretName = "guards", "ca"

// cluster is an API server with the Secret, and a clock.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	clock  *clocktesting.FakePassiveClock
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{t, fake.NewClientset(), clocktesting.NewFakePassiveClock(time.Now())}
}

// start starts a process that has a certificate.
func (c *cluster) start(hosts ...string) *Certs {
	c.t.Helper()
	certs, err := New(c.t.Context(), c.client, namespace, secretName, hosts...)
	require.NoError(c.t, err)
	certs.clock = c.clock
	return certs
}

// pass lets time pass, and then each process look.
func (c *cluster) pass(d time.Duration, processes ...*Certs) {
	c.t.Helper()
	c.clock.SetTime(c.clock.Now().Add(d))
	for _, process := range processes {
		require.NoError(c.t, process.refresh(c.t.Context()))
	}
}

func (c *cluster) secret() *v1.Secret {
	c.t.Helper()
	secret, err := c.client.CoreV1().Secrets(namespace).Get(c.t.Context(), secretName, metav1.GetOptions{})
	require.NoError(c.t, err)
	return secret
}

// change changes the Secret.
func (c *cluster) change(change func(data map[string][]byte)) {
	c.t.Helper()
	secret := c.secret()
	change(secret.Data)
	_, err := c.client.CoreV1().Secrets(namespace).Update(c.t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(c.t, err)
}

// verify has a client that trusts a bundle look at what a process serves.
func (c *cluster) verify(bundle []byte, process *Certs, host string) error {
	c.t.Helper()
	pair, err := tls.X509KeyPair(process.CurrentCertKeyContent())
	require.NoError(c.t, err)
	roots := x509.NewCertPool()
	require.True(c.t, roots.AppendCertsFromPEM(bundle))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: c.clock.Now()})
	return err
}

func TestServes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	process := c.start("127.0.0.1", "guard.guards.svc", "::1")
	for _, host := range []string{"127.0.0.1", "guard.guards.svc", "::1"} {
		require.NoError(t, c.verify(process.CABundle(), process, host))
	}
	require.Error(t, c.verify(process.CABundle(), process, "127.0.0.2"))
	require.Error(t, c.verify(newCluster(t).start("127.0.0.1").CABundle(), process, "127.0.0.1"))

	secret := c.secret()
	_, serving := process.CurrentCertKeyContent()
	for key, value := range secret.Data {
		require.NotContains(t, string(value), string(serving), "the key of a process is stored under %s", key)
	}
	require.Len(t, secret.Data, 2)
}

// Two processes that start at once make one authority: the server takes the first one's.
func TestMadeOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const processes = 2
	looks := make(chan struct{}, processes)
	for range processes {
		looks <- struct{}{}
	}
	c.client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case <-looks: // All of them see that there is none.
			return true, nil, apierrors.NewNotFound(v1.Resource("secrets"), secretName)
		default:
			return false, nil, nil
		}
	})
	started := make([]*Certs, processes)
	errs := make([]error, processes)
	var starting sync.WaitGroup
	for i := range started {
		starting.Go(func() { started[i], errs[i] = New(context.Background(), c.client, namespace, secretName, "127.0.0.1") })
	}
	starting.Wait()
	for i := range started {
		require.NoError(t, errs[i])
		require.Equal(t, started[0].CABundle(), started[i].CABundle())
		require.NoError(t, c.verify(started[0].CABundle(), started[i], "127.0.0.1"))
	}
}

// told counts what a listener is told.
type told struct{ times int }

func (l *told) Enqueue() { l.times++ }

func TestServingCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	process, listener := c.start("127.0.0.1"), &told{}
	process.AddListener(listener)
	first, _ := process.CurrentCertKeyContent()
	c.pass(servingLife/2, process)
	same, _ := process.CurrentCertKeyContent()
	require.Equal(t, first, same)
	require.Zero(t, listener.times)
	c.pass(servingLife/4, process)
	renewed, _ := process.CurrentCertKeyContent()
	require.NotEqual(t, first, renewed)
	require.Equal(t, 1, listener.times)
	c.pass(servingLife/3, process)
	require.NoError(t, c.verify(process.CABundle(), process, "127.0.0.1"))
}

// A new authority is trusted before it signs, and the previous one while a server may show a certificate from it.
func TestRotation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	one, other := c.start("127.0.0.1"), c.start("127.0.0.1")
	both := func(d time.Duration) { c.pass(d, one, other) }
	first := one.CABundle()
	both(authorityLife / 2)
	require.Equal(t, first, one.CABundle())

	both(authorityLife / 4)
	announced := one.CABundle()
	require.Equal(t, announced, other.CABundle())
	require.Len(t, parse(t, announced), 2)
	require.NoError(t, c.verify(first, one, "127.0.0.1"), "API servers may not have read it so far")
	require.NoError(t, c.verify(first, other, "127.0.0.1"))

	both(promotion / 2)
	require.NoError(t, c.verify(first, one, "127.0.0.1"))
	c.pass(promotion, one)
	require.Error(t, c.verify(first, one, "127.0.0.1"))
	require.NoError(t, c.verify(announced, one, "127.0.0.1"))
	require.NoError(t, c.verify(one.CABundle(), other, "127.0.0.1"), "the other one has not looked so far")
	require.Len(t, parse(t, one.CABundle()), 2)
	both(0)
	require.NoError(t, c.verify(announced, other, "127.0.0.1"))
	require.Equal(t, one.CABundle(), other.CABundle())

	both(authorityLife * 3 / 4) // It goes on.
	both(2 * promotion)
	require.Error(t, c.verify(announced, one, "127.0.0.1"))
	require.NoError(t, c.verify(one.CABundle(), one, "127.0.0.1"))
}

func parse(t *testing.T, bundle []byte) []*x509.Certificate {
	t.Helper()
	certificates, err := cert.ParseCertsPEM(bundle)
	require.NoError(t, err)
	return certificates
}

// What is of no use in the Secret is replaced, and a process that runs takes the new one.
func TestSecretThatIsOfNoUse(t *testing.T) {
	t.Parallel()
	stranger := newCluster(t)
	stranger.start("x")
	for name, spoil := range map[string]func(map[string][]byte){
		"empty":               func(data map[string][]byte) { clear(data) },
		"no certificate":      func(data map[string][]byte) { data[certKey] = []byte("?") },
		"no key":              func(data map[string][]byte) { delete(data, privateKey) },
		"key of another one":  func(data map[string][]byte) { data[privateKey] = stranger.secret().Data[privateKey] },
		"no authority's pair": func(data map[string][]byte) { data[certKey], data[privateKey] = servingPair(t) },
	} {
		c := newCluster(t)
		process, listener := c.start("127.0.0.1"), &told{}
		process.AddListener(listener)
		before := process.CABundle()
		c.change(spoil)
		c.pass(0, process)
		require.NotEqual(t, before, process.CABundle(), name)
		require.NoError(t, c.verify(process.CABundle(), process, "127.0.0.1"), name)
		require.Equal(t, 1, listener.times, name)
		require.NoError(t, c.verify(c.start("127.0.0.1").CABundle(), process, "127.0.0.1"), name)
	}
}

func servingPair(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	return newCluster(t).start("127.0.0.1").CurrentCertKeyContent()
}

// No process has looked for years.
func TestAuthorityHasExpired(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	process := c.start("127.0.0.1")
	c.pass(authorityLife+time.Hour, process)
	require.NoError(t, c.verify(process.CABundle(), process, "127.0.0.1"))
	require.Len(t, parse(t, process.CABundle()), 1)
}

// API servers refuse a bundle that they cannot read to the end.
func TestBundleHasOnlyCertificates(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	process := c.start("127.0.0.1")
	before := process.CABundle()
	other := newCluster(t).start("x").CABundle()
	c.change(func(data map[string][]byte) {
		data[certKey] = bytes.TrimSpace(data[certKey]) // As an editor may leave it.
		data[nextCertKey], data[previousCertKey] = []byte("?"), bytes.TrimSpace(other)
	})
	c.pass(0, process)
	require.Equal(t, string(before)+string(other), string(process.CABundle()))
}

func TestSecretCannotBeRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	process := c.start("127.0.0.1")
	before, _ := process.CurrentCertKeyContent()
	c.client.PrependReactor("*", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(v1.Resource("secrets"), secretName, nil)
	})
	require.ErrorContains(t, process.refresh(t.Context()), "read the guard's certificate authority from Secret guards/ca")
	after, _ := process.CurrentCertKeyContent()
	require.Equal(t, before, after)
	_, err := New(t.Context(), c.client, namespace, secretName, "127.0.0.1")
	require.Error(t, err)
}
