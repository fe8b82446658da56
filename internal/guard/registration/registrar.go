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

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

// interval is the interval of the checks of the configuration.
const interval = 10 * time.Second

// Registrar keeps the configuration up to date.
type Registrar struct {
	Client kubernetes.Interface
	// URL is the address of this process, "" if guards are reached through a Service: then the installed
	// configuration has the address, and the Registrar only updates its path and caBundle.
	URL string
	// Lease is the guards' Lease, as "namespace/name".
	Lease string
	// FailurePolicy is the policy of configurations that the Registrar creates. Existing ones keep theirs.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// Leadership says whether this process may register.
	Leadership lease.Leadership
	// Decider says whether this process decides.
	Decider Decider
	// Authorities are the authorities to trust, nil if others maintain the bundle.
	Authorities Authorities
	// Lookout, unless nil, is told of each path before API servers can use it.
	Lookout *Lookout

	mutex sync.Mutex
	path  string
	made  time.Time
}

// Decider is the guard of this process.
type Decider interface {
	// Decides reports whether this process decides.
	Decides() bool
}

// Authorities are certificate authorities.
type Authorities interface {
	// CABundle returns their certificates, in PEM.
	CABundle() []byte
}

// Run keeps the configuration up to date while this process decides, until the context ends. Register must have been
// called before the handover.
func (r *Registrar) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.Decider.Decides() {
			_ = r.Register(ctx) // A Lookout takes the Lease from this process if it must not decide.
		}
	}, interval)
}

// Register works like Ensure, but ignores errors that Run can fix later. It returns an error only if this process
// must not decide.
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

// Ensure brings the configuration up to date. It returns an ErrOtherLease if the configuration is for another Lease.
func (r *Registrar) Ensure(ctx context.Context) error {
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultRetry, raced, func() error { return r.ensure(ctx) })
}

// ensure works like Ensure, without retries after concurrent writes.
func (r *Registrar) ensure(ctx context.Context) error {
	// A process that was paused may continue here after it lost the Lease.
	if err := r.Leadership.Leads(); err != nil {
		return fmt.Errorf("register the guard in ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	if r.Lookout != nil {
		r.Lookout.Expect(r.secret())
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

// create returns the configuration for a cluster that has none.
func (r *Registrar) create() *admissionregistrationv1.ValidatingWebhookConfiguration {
	url := r.URL + r.secret()
	return New(admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: r.bundle(nil)}, r.Lease, r.FailurePolicy)
}

// updated returns the desired configuration.
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
	if service := webhook.ClientConfig.Service; service != nil && r.Authorities != nil {
		service.Path = ptr.To(r.secret())
	}
	webhook.ClientConfig.CABundle = r.bundle(webhook.ClientConfig.CABundle)
	return wanted
}

func (r *Registrar) bundle(current []byte) []byte {
	if r.Authorities == nil {
		return current
	}
	return bytes.Clone(r.Authorities.CABundle())
}
