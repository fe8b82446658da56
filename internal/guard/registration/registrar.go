package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// interval is how often to look whether the configuration is still as it should be.
const interval = 10 * time.Second

// Registrar keeps the configuration up to date.
type Registrar struct {
	Client kubernetes.Interface
	// URL is where this process is reached, "" if guards are reached through a Service: then the
	// configuration is installed with that, and only its caBundle is kept.
	URL string
	// Lease is the guards' Lease, as "namespace/name".
	Lease string
	// FailurePolicy is for configurations that the Registrar makes. One that is there keeps its own.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// Leads returns why this process is not the one to register; nil if it is.
	Leads func() error
	// Decides reports whether this process decides.
	Decides func() bool
	// CABundle returns the authorities to trust, in PEM; nil if that is up to somebody else.
	CABundle func() []byte
	// Expect is told of each path before API servers can ask at it. It may be nil.
	Expect func(path string)

	mutex sync.Mutex
	path  string
	made  time.Time
}

// Run keeps the configuration up to date, while this process decides, until the context ends. Before
// it takes over, it has called Register itself.
func (r *Registrar) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.Decides() {
			_ = r.Register(ctx) // Who decides loses the Lease by a Lookout.
		}
	}, interval)
}

// Register is Ensure for those who go on without: the next attempt is by Run. It returns an error only
// if this process must not decide.
func (r *Registrar) Register(ctx context.Context) error {
	err := r.Ensure(ctx)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "API servers may not ask this guard; trying again")
	}
	if errors.Is(err, ErrOtherLease) || ctx.Err() != nil {
		return err
	}
	return nil
}

// Ensure brings the configuration up to date. Its error is an ErrOtherLease if that is somebody
// else's.
func (r *Registrar) Ensure(ctx context.Context) error {
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultRetry, raced, func() error { return r.ensure(ctx) })
}

// ensure is Ensure, but for others who write at the same time.
func (r *Registrar) ensure(ctx context.Context) error {
	// A process that was paused goes on here before it knows that it lost the Lease.
	if err := r.Leads(); err != nil {
		return fmt.Errorf("register the guard in ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	if r.Expect != nil {
		r.Expect(r.secret())
	}
	configurations := r.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	current, err := configurations.Get(ctx, Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && r.URL != "":
		if _, err := configurations.Create(ctx, r.create(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("register the guard in ValidatingWebhookConfiguration %s: %w", Name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("look at ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	if err := checkLease(current, r.Lease); err != nil {
		return fmt.Errorf("register the guard: %w", err)
	}
	wanted := r.updated(current)
	if apiequality.Semantic.DeepEqual(current, wanted) {
		return nil
	}
	if _, err := configurations.Update(ctx, wanted, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	return nil
}

// create is the configuration if there is none.
func (r *Registrar) create() *admissionregistrationv1.ValidatingWebhookConfiguration {
	url := r.URL + r.secret()
	return New(admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: r.bundle(nil)}, r.Lease, r.FailurePolicy)
}

// updated is the configuration as it should be.
func (r *Registrar) updated(current *admissionregistrationv1.ValidatingWebhookConfiguration) *admissionregistrationv1.ValidatingWebhookConfiguration {
	wanted := current.DeepCopy()
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, LeaseAnnotation, r.Lease)
	webhook := webhookOf(wanted)
	if webhook == nil && r.URL != "" {
		wanted.Webhooks = append(wanted.Webhooks, r.create().Webhooks...)
	}
	if webhook == nil {
		return wanted
	}
	if r.URL != "" {
		made := r.create().Webhooks[0]
		made.FailurePolicy = webhook.FailurePolicy
		made.ClientConfig.CABundle = webhook.ClientConfig.CABundle
		*webhook = made
	}
	if service := webhook.ClientConfig.Service; service != nil && r.CABundle != nil {
		service.Path = ptr.To(r.secret())
	}
	webhook.ClientConfig.CABundle = r.bundle(webhook.ClientConfig.CABundle)
	return wanted
}

func (r *Registrar) bundle(current []byte) []byte {
	if r.CABundle == nil {
		return current
	}
	return bytes.Clone(r.CABundle())
}
