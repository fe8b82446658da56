package registration

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// leader is a process that leads unless there is an error.
type leader struct {
	err     error
	decides atomic.Bool
}

func (l *leader) Leads() error  { return l.err }
func (l *leader) Decides() bool { return l.decides.Load() }

// authorities are Authorities with this bundle.
type authorities string

func (a authorities) CABundle() []byte { return []byte(a) }

// registered has a Registrar, and the configuration that it keeps.
type registered struct {
	*Registrar
	leader *leader
	t      *testing.T
	client *fake.Clientset
}

func newRegistered(t *testing.T, url string) *registered {
	t.Helper()
	client := fake.NewClientset()
	leader := &leader{}
	leader.decides.Store(true)
	return &registered{&Registrar{
		Client: client, URL: url, Lease: "guards/lease", FailurePolicy: admissionregistrationv1.Ignore,
		Leadership: leader, Decider: leader, Authorities: authorities("authorities"),
	}, leader, t, client}
}

func (r *registered) ensure() *admissionregistrationv1.ValidatingWebhookConfiguration {
	r.t.Helper()
	require.NoError(r.t, r.Ensure(r.t.Context()))
	return r.current()
}

func (r *registered) current() *admissionregistrationv1.ValidatingWebhookConfiguration {
	r.t.Helper()
	config, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(r.t.Context(), Name, metav1.GetOptions{})
	require.NoError(r.t, err)
	return config
}

// install stores a configuration.
func (r *registered) install(config *admissionregistrationv1.ValidatingWebhookConfiguration) {
	r.t.Helper()
	_, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(r.t.Context(), config, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

// writes counts what was written.
func (r *registered) writes() int {
	count := 0
	for _, action := range r.client.Actions() {
		if action.GetVerb() == "update" || action.GetVerb() == "create" {
			count++
		}
	}
	return count
}

const here = "https://10.0.0.1:9443"

// elsewhere is a configuration that a user has changed.
func elsewhere() *admissionregistrationv1.ValidatingWebhookConfiguration {
	config := New(admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://10.0.0.2:9443"), CABundle: []byte("old")}, "guards/lease", admissionregistrationv1.Fail)
	config.Webhooks[0].Rules[0].APIVersions = []string{"v1"}
	config.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	config.Webhooks[0].TimeoutSeconds = ptr.To[int32](30)
	return config
}

func TestMade(t *testing.T) {
	t.Parallel()
	r := newRegistered(t, here)
	config := r.ensure()
	require.Equal(t, map[string]string{LeaseAnnotation: "guards/lease"}, config.Annotations)
	require.Len(t, config.Webhooks, 1)
	webhook := config.Webhooks[0]
	require.Equal(t, admissionregistrationv1.WebhookClientConfig{URL: ptr.To(here + r.path), CABundle: []byte("authorities")}, webhook.ClientConfig)
	require.Equal(t, admissionregistrationv1.Ignore, *webhook.FailurePolicy)
	require.NoError(t, Check(config))
	r.ensure()
	require.Equal(t, 1, r.writes(), "it is as it should be")
}

func TestUpdated(t *testing.T) {
	t.Parallel()
	r := newRegistered(t, here)
	r.install(elsewhere())
	config := r.ensure()
	want := New(admissionregistrationv1.WebhookClientConfig{URL: ptr.To(here + r.path), CABundle: []byte("authorities")}, "guards/lease", admissionregistrationv1.Fail)
	require.Equal(t, want.Webhooks, config.Webhooks, "the failure policy is the cluster's")
	require.Equal(t, want.Annotations, config.Annotations)
	writes := r.writes()
	r.ensure()
	require.Equal(t, writes, r.writes())
}

func TestOtherWebhooksAreKept(t *testing.T) {
	t.Parallel()
	r := newRegistered(t, here)
	other := elsewhere()
	other.Webhooks[0].Name = "other.example.com"
	r.install(other)
	config := r.ensure()
	require.Len(t, config.Webhooks, 2)
	require.Equal(t, elsewhere().Webhooks[0].Rules, config.Webhooks[0].Rules)
	require.Equal(t, WebhookName, config.Webhooks[1].Name)
	require.NoError(t, Check(config))
}

// A guard behind a Service has only the authorities to add to what was installed.
func TestBehindAService(t *testing.T) {
	t.Parallel()
	r := newRegistered(t, "")
	require.ErrorContains(t, r.Ensure(t.Context()), "look at ValidatingWebhookConfiguration quartermaster-guard")
	require.Zero(t, r.writes(), "it is not up to the guard to make it")

	installed := elsewhere()
	installed.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "guards", Name: "guard"}}
	r.install(installed)
	config := r.ensure()
	installed.Webhooks[0].ClientConfig.CABundle, installed.Webhooks[0].ClientConfig.Service.Path = []byte("authorities"), &r.path
	require.Equal(t, installed.Webhooks, config.Webhooks)
	require.Equal(t, "guards/lease", config.Annotations[LeaseAnnotation])

	installed.Webhooks[0].Name = "other.example.com"
	r = newRegistered(t, "")
	r.install(installed)
	require.Equal(t, installed.Webhooks, r.ensure().Webhooks, "nobody has installed the guard's")
}

// If others maintain the certificates, the bundle stays.
func TestBundleOfSomebodyElse(t *testing.T) {
	t.Parallel()
	r := newRegistered(t, here)
	r.Authorities = nil
	r.install(elsewhere())
	require.Equal(t, "old", string(r.ensure().Webhooks[0].ClientConfig.CABundle))
}

// Guards with another Lease have one that decides as well.
func TestConfigurationOfAnotherLease(t *testing.T) {
	t.Parallel()
	for _, url := range []string{here, ""} {
		r := newRegistered(t, url)
		theirs := elsewhere()
		theirs.Annotations[LeaseAnnotation] = "others/lease"
		r.install(theirs)
		writes := r.writes()
		err := r.Register(t.Context())
		require.ErrorIs(t, err, ErrOtherLease)
		require.ErrorContains(t, err, "is for guards with Lease others/lease, and this one has guards/lease")
		require.ErrorContains(t, err, "kubectl annotate --overwrite validatingwebhookconfiguration quartermaster-guard quartermaster-dra.github.io/lease=guards/lease")
		require.Equal(t, writes, r.writes())
		require.Equal(t, theirs.Webhooks, r.current().Webhooks)
		require.Equal(t, theirs.Annotations, r.current().Annotations)
	}
}

// Two guards with different Leases may register at the same time.
func TestConfigurationIsMadeMeanwhile(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]*admissionregistrationv1.ValidatingWebhookConfiguration{"there was none": nil, "it had no annotation": elsewhere()} {
		r := newRegistered(t, here)
		if before != nil {
			before.Annotations = nil
			r.install(before)
		}
		theirs := elsewhere()
		theirs.Annotations[LeaseAnnotation] = "others/lease"
		kind := admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
		once := sync.OnceValue(func() error {
			if before == nil {
				require.NoError(t, r.client.Tracker().Create(kind, theirs, ""))
				return apierrors.NewAlreadyExists(schema.GroupResource{}, Name)
			}
			require.NoError(t, r.client.Tracker().Update(kind, theirs, ""))
			return apierrors.NewConflict(schema.GroupResource{}, Name, nil)
		})
		r.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetVerb() == "get" {
				return false, nil, nil
			}
			return true, nil, once()
		})
		require.ErrorIs(t, r.Register(t.Context()), ErrOtherLease, name)
		require.Equal(t, theirs.Annotations, r.current().Annotations, name)
	}
}

// If it may not write, a guard decides all the same: its configuration may be as it should be.
func TestRegisterGoesOn(t *testing.T) {
	t.Parallel()
	r := newRegistered(t, "")
	require.Error(t, r.Ensure(t.Context()))
	require.NoError(t, r.Register(t.Context()))
}

// A process that was paused for longer than its Lease must not replace the registration of the new holder.
func TestOnlyTheLeaderRegisters(t *testing.T) {
	t.Parallel()
	r := newRegistered(t, here)
	r.install(elsewhere())
	writes := r.writes()
	r.leader.err = errors.New("not the leader")
	require.ErrorContains(t, r.Ensure(t.Context()), "not the leader")
	require.Equal(t, writes, r.writes())
}

// Until a guard takes over, API servers are better off with the one that they ask, if any.
func TestOnlyTheDeciderIsKeptRegistered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistered(t, here)
		r.leader.decides.Store(false)
		go r.Run(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, r.writes())
		r.leader.decides.Store(true)
		time.Sleep(interval)
		synctest.Wait()
		require.Equal(t, 1, r.writes())
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Check(elsewhere()), "rules that are not those shipped")
	ok := New(admissionregistrationv1.WebhookClientConfig{URL: ptr.To(here), CABundle: []byte("x")}, "guards/lease", admissionregistrationv1.Fail)
	require.NoError(t, Check(ok))
	for want, change := range map[string]func(*admissionregistrationv1.ValidatingWebhook){
		"rules": func(w *admissionregistrationv1.ValidatingWebhook) {
			w.Rules[0].Operations = append(w.Rules[0].Operations, "CREATE")
		},
		"namespaceSelector": func(w *admissionregistrationv1.ValidatingWebhook) {
			w.NamespaceSelector = elsewhere().Webhooks[0].NamespaceSelector
		},
		"objectSelector": func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ObjectSelector = elsewhere().Webhooks[0].NamespaceSelector
		},
		"matchConditions": func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "false"}}
		},
		"matchConditions that are not those shipped": func(w *admissionregistrationv1.ValidatingWebhook) { w.MatchConditions = nil },
		"no caBundle": func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = nil },
	} {
		config := ok.DeepCopy()
		change(&config.Webhooks[0])
		require.ErrorContains(t, Check(config), want)
	}
	ok.Webhooks[0].NamespaceSelector, ok.Webhooks[0].ObjectSelector = nil, nil
	ok.Webhooks[0].TimeoutSeconds = ptr.To[int32](1)
	require.NoError(t, Check(ok), "what leaves nothing out")
	ok.Webhooks = nil
	require.ErrorContains(t, Check(ok), "has no webhook claims.quartermaster-dra.github.io")
}
