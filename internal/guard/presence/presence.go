// Package presence tells a scheduler whether a guard is in place: API servers ask one about every allocation, and it
// decides. Then no other scheduler can allocate a device twice, and the scheduler need not wait for pending writes of
// others.
package presence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
)

const (
	// interval is the interval of looks while a guard is registered, and absentInterval while none is.
	interval       = time.Second
	absentInterval = 10 * time.Second
	// lookTimeout limits the time of a look: a look that hangs shows nothing about changes.
	lookTimeout = 2 * time.Second
)

// Presence tracks whether a guard is in place. It is safe for concurrent use.
type Presence struct {
	client kubernetes.Interface
	clock  clock.PassiveClock

	mutex sync.Mutex
	// missing says why no guard is in place, nil if one is.
	missing error
	// renewed is the newest seen renewal of the Lease, by its holder's clock. seen is the time of the request that
	// showed it, by this process's clock: the two are never compared.
	renewed, seen time.Time
	// lasts is the duration of the Lease.
	lasts time.Duration
	// doubted is set after a write without a guard's mark, until the next write with one: the Lease does not show
	// whether API servers reach the guard.
	doubted bool
}

// errNotLooked means that Run has not looked so far.
var errNotLooked = errors.New("no check for a guard has finished yet")

// New returns a Presence that reports no guard until Run looks.
func New(client kubernetes.Interface) *Presence {
	return &Presence{client: client, clock: clock.RealClock{}, missing: errNotLooked}
}

// InPlace reports whether a guard is in place.
func (p *Presence) InPlace() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.inPlace() == nil
}

// inPlace returns why no guard is in place, nil if one is. The caller holds the mutex.
func (p *Presence) inPlace() error {
	switch {
	case p.missing != nil:
		return p.missing
	case lease.Elapsed(p.seen, p.clock.Now()) >= p.lasts:
		return fmt.Errorf("the Lease of the guard was not renewed for %s", p.lasts)
	case p.doubted:
		return errors.New("an allocation was stored without asking a guard")
	default:
		return nil
	}
}

// Stored records that an allocation was stored, and whether a guard was asked about it. If not, no guard counts as in
// place until one was asked about another allocation.
func (p *Presence) Stored(asked bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.doubted = !asked
}

// Run looks for the guard until the context ends.
func (p *Presence) Run(ctx context.Context) {
	var last string
	for ctx.Err() == nil {
		missing := p.look(ctx)
		state := "in place"
		if missing != nil {
			state = missing.Error()
		}
		if state != last {
			klog.FromContext(ctx).Info("Looked for a guard: claims settle beside other schedulers unless it is in place", "guard", state)
			last = state
		}
		pause := interval
		if errors.Is(missing, errAbsent) {
			pause = absentInterval
		}
		_ = wait.PollUntilContextTimeout(ctx, pause, pause, false, func(context.Context) (bool, error) { return true, nil })
	}
}

// errAbsent means that no guard is installed, or that this process may not see it.
var errAbsent = errors.New("no guard is registered")

// look looks once. It returns why no guard is in place.
func (p *Presence) look(ctx context.Context) error {
	sent := p.clock.Now()
	looking, done := context.WithTimeout(ctx, lookTimeout)
	defer done()
	lease, policy, err := p.find(looking)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.missing = err; err == nil {
		p.missing = p.take(lease, policy, sent)
	}
	return p.inPlace()
}

// find returns the Lease of the registered guard, and its failurePolicy.
func (p *Presence) find(ctx context.Context) (*coordinationv1.Lease, admissionregistrationv1.FailurePolicyType, error) {
	config, err := p.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, registration.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", errAbsent
	case apierrors.IsForbidden(err):
		return nil, "", fmt.Errorf("%w, as far as may be seen: %w", errAbsent, err)
	case err != nil:
		return nil, "", err
	}
	if err := registration.Check(config); err != nil {
		return nil, "", err
	}
	namespace, name, found := strings.Cut(config.Annotations[registration.LeaseAnnotation], "/")
	if !found {
		return nil, "", fmt.Errorf("ValidatingWebhookConfiguration %s does not say in annotation %s where the guard's Lease is", config.Name, registration.LeaseAnnotation)
	}
	lease, err := p.client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	return lease, registration.PolicyOf(config), err
}

// take records the Lease that was requested at the given time, and returns why its holder does not guard. The caller
// holds the mutex.
func (p *Presence) take(lease *coordinationv1.Lease, policy admissionregistrationv1.FailurePolicyType, sent time.Time) error {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if renewed := lease.Spec.RenewTime; renewed != nil && !renewed.Time.Equal(p.renewed) {
		// The first Lease that is found proves nothing: its holder may have died long ago. With failurePolicy Fail
		// that is no risk, because API servers then store no allocation.
		if !p.renewed.IsZero() || policy == admissionregistrationv1.Fail {
			p.seen = sent
		}
		p.renewed = renewed.Time
	}
	p.lasts = time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	switch {
	case holder == "":
		return errors.New("no guard has the Lease")
	case lease.Annotations[election.DecidesAnnotation] != holder:
		return fmt.Errorf("guard %s has the Lease, and does not decide yet", holder)
	case lease.Annotations[election.ModeAnnotation] != string(guard.Enforce):
		return fmt.Errorf("guard %s only warns", holder)
	default:
		return nil
	}
}
