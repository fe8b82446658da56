package presence

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
)

// board has a Presence, and the two objects that it looks at.
type board struct {
	*Presence
	t      *testing.T
	client *fake.Clientset
	clock  *testingclock.FakePassiveClock
	config *admissionregistrationv1.ValidatingWebhookConfiguration
	lease  *coordinationv1.Lease
}

func newBoard(t *testing.T) *board {
	t.Helper()
	b := &board{t: t, client: fake.NewClientset(), clock: testingclock.NewFakePassiveClock(time.Unix(1000, 0))}
	b.Presence = New(b.client)
	b.Presence.clock = b.clock
	b.config = registration.New(admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1"), CABundle: []byte("x")}, "guards/lease", admissionregistrationv1.Ignore)
	b.lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "guards", Name: "lease", Annotations: map[string]string{election.DecidesAnnotation: "a", election.ModeAnnotation: "Enforce"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](15)},
	}
	return b
}

// renewed has the objects stored as they are now, with a Lease that was renewed, and has a look.
func (b *board) renewed(change func(*board)) error {
	b.t.Helper()
	b.clock.SetTime(b.clock.Now().Add(2 * time.Second))
	b.lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(b.clock.Now().Add(-time.Hour))) // Its clock is wrong.
	if change != nil {
		change(b)
	}
	b.store()
	return b.look(b.t.Context())
}

func (b *board) store() {
	b.t.Helper()
	tracker := b.client.Tracker()
	require.NoError(b.t, tracker.Create(admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"), b.config.DeepCopy(), ""))
	require.NoError(b.t, tracker.Create(coordinationv1.SchemeGroupVersion.WithResource("leases"), b.lease.DeepCopy(), "guards"))
}

// looked makes a board and, for each change, changes the objects, stores them again and looks.
func looked(t *testing.T, changes ...func(*board)) (*board, error) {
	t.Helper()
	b := newBoard(t)
	var err error
	for _, change := range changes {
		b.client = fake.NewClientset()
		b.Presence.client = b.client
		err = b.renewed(change)
	}
	return b, err
}

func TestInPlace(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	require.ErrorIs(t, b.look(t.Context()), errAbsent)
	require.False(t, b.InPlace())
	_, err := looked(t, nil)
	require.ErrorContains(t, err, "not renewed", "it may have died long ago")
	b, err = looked(t, nil, nil)
	require.NoError(t, err)
	require.True(t, b.InPlace())
	b.clock.SetTime(b.clock.Now().Add(15 * time.Second))
	require.False(t, b.InPlace(), "it was not renewed any more")
}

// TestFail: if API servers store nothing without a guard, a single look is enough to trust the Lease.
func TestFail(t *testing.T) {
	t.Parallel()
	fail := func(b *board) { b.config.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Fail) }
	b, err := looked(t, fail)
	require.NoError(t, err)
	b.clock.SetTime(b.clock.Now().Add(15 * time.Second))
	require.False(t, b.InPlace(), "it was not renewed any more")
	_, err = looked(t, func(b *board) {
		fail(b)
		b.lease.Annotations[election.DecidesAnnotation] = "somebody else"
	})
	require.ErrorContains(t, err, "does not decide yet")
}

// A machine that was suspended goes on with a monotonic clock that has stood still meanwhile.
func TestSuspended(t *testing.T) {
	t.Parallel()
	b, err := looked(t, nil, nil)
	require.NoError(t, err)
	b.clock.SetTime(time.Now())
	b.client = fake.NewClientset()
	b.Presence.client = b.client
	require.NoError(t, b.renewed(nil))
	require.True(t, b.InPlace())
	now := b.clock.Now().Add(time.Hour)
	stands(&now, time.Hour)
	require.Zero(t, now.Sub(b.clock.Now()), "by the monotonic clock")
	b.clock.SetTime(now)
	require.False(t, b.InPlace())
}

// stands sets the monotonic clock of a time back, for which there is no function.
func stands(now *time.Time, by time.Duration) {
	monotonic := (*struct {
		_         uint64
		monotonic int64
	})(unsafe.Pointer(now))
	monotonic.monotonic -= int64(by)
}

// The answer may be late: the Lease is not younger for that.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	b, err := looked(t, nil, nil)
	require.NoError(t, err)
	b.client = fake.NewClientset()
	b.Presence.client = b.client
	b.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		b.clock.SetTime(b.clock.Now().Add(20 * time.Second))
		return false, nil, nil
	})
	require.ErrorContains(t, b.renewed(nil), "not renewed")
}

func TestNotInPlace(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*board){
		"has the Lease, and does not decide yet": func(b *board) { b.lease.Spec.HolderIdentity = ptr.To("b") },
		"no guard has the Lease":                 func(b *board) { b.lease.Spec.HolderIdentity = ptr.To("") },
		"only warns":                             func(b *board) { b.lease.Annotations[election.ModeAnnotation] = "Warn" },
		"has rules that are not those shipped":   func(b *board) { b.config.Webhooks[0].Rules[0].APIVersions = []string{"v1"} },
		"has a namespaceSelector": func(b *board) {
			b.config.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"has an objectSelector": func(b *board) {
			b.config.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"has matchConditions": func(b *board) {
			b.config.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "false"}}
		},
		"has no caBundle":                       func(b *board) { b.config.Webhooks[0].ClientConfig.CABundle = nil },
		"has no webhook":                        func(b *board) { b.config.Webhooks[0].Name = "other" },
		"does not say in annotation":            func(b *board) { b.config.Annotations = nil },
		`leases.coordination.k8s.io "gone" not`: func(b *board) { b.config.Annotations[registration.LeaseAnnotation] = "guards/gone" },
	} {
		b, err := looked(t, nil, nil, change)
		require.ErrorContains(t, err, want)
		require.False(t, b.InPlace())
	}
}

func TestUnasked(t *testing.T) {
	t.Parallel()
	b, err := looked(t, nil, nil)
	require.NoError(t, err)
	b.Stored(false)
	require.False(t, b.InPlace())
	b.client = fake.NewClientset()
	b.Presence.client = b.client
	require.ErrorContains(t, b.renewed(nil), "without asking a guard", "that it is alive does not say that it is reached")
	b.Stored(true)
	require.True(t, b.InPlace())
}
