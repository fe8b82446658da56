package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// ErrOtherLease is why a guard must not register, nor decide: the configuration is for guards that
// have another Lease, of which one decides as well.
var ErrOtherLease = errors.New("two guards would decide")

// errNoAnswer is why a look has not failed either.
var errNoAnswer = errors.New("there is no answer yet")

// checkLease returns an ErrOtherLease if a configuration is for guards with another Lease than the
// given one. One without the annotation is for anybody.
func checkLease(config *admissionregistrationv1.ValidatingWebhookConfiguration, lease string) error {
	named := config.Annotations[LeaseAnnotation]
	if named == "" || named == lease {
		return nil
	}
	return fmt.Errorf("%w: ValidatingWebhookConfiguration %s is for guards with Lease %s, and this one has %s; give it the same one "+
		"(--leader-elect-resource-namespace, --leader-elect-resource-name), or end the guards that have the other one, and then run: "+
		"kubectl annotate --overwrite validatingwebhookconfiguration %s %s=%s",
		ErrOtherLease, Name, named, lease, Name, LeaseAnnotation, lease)
}

// lookInterval is how often Lookout looks, and looksPerLease is how often at least while a Lease lasts: who has not looked for so
// long is no candidate.
const (
	lookInterval  = 2 * time.Second
	looksPerLease = 4
)

// Lookout looks all the time whose guards the configuration is for. It is safe for concurrent use.
//
// Those whom it is not for must not stand for election: API servers ask one guard, and which one
// decides they do not know. If the configuration becomes theirs, the guards of the other Lease may
// not know for as long as they go on without having looked, and have then the rest of their Lease.
type Lookout struct {
	// Client is for nothing else: whoever cannot look loses the Lease.
	Client kubernetes.Interface
	// Lease is the guards' Lease, as "namespace/name", and Lasts its duration.
	Lease string
	Lasts time.Duration

	mutex sync.Mutex
	// looked is when the newest look was sent that had an answer, zero if there was none. failed is why
	// those after it had none.
	looked time.Time
	failed error
	// refused is the ErrOtherLease that was found then, nil if none was, and refusedAt is when there
	// was one for the last time, zero if never.
	refused   error
	refusedAt time.Time
	// path is where the configuration has guards asked, and paths are where it has, and when it last did.
	path  string
	paths map[string]time.Time
	// next is closed after the next look that somebody waits for, nil if nobody does; unknown is how many wait, and again is
	// when the last one was.
	next    chan struct{}
	unknown int
	again   time.Time
}

// Run looks until the context ends.
func (l *Lookout) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, l.Look, min(lookInterval, l.Lasts/looksPerLease))
}

// Look looks once.
func (l *Lookout) Look(ctx context.Context) {
	sent := time.Now()
	config, err := l.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, Name, metav1.GetOptions{})
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if sent.Before(l.looked) { // Another look was later.
		return
	}
	if err != nil && !apierrors.IsNotFound(err) {
		l.failed = err
		return
	}
	before := l.refused
	l.looked, l.failed, l.refused = sent, nil, nil
	if err == nil {
		l.refused = checkLease(config, l.Lease)
		l.saw(pathOf(config))
	}
	if l.refused != nil {
		l.refusedAt = time.Now()
	}
	if l.refused != nil && before == nil {
		klog.FromContext(ctx).Error(l.refused, "This guard does not stand for election")
	}
}

// Candidate returns why this process must not have the Lease (now), nil if it may.
func (l *Lookout) Candidate() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch {
	case l.refused != nil:
		return l.refused
	case l.looked.IsZero():
		return fmt.Errorf("ValidatingWebhookConfiguration %s could not be looked at so far; see that the guard may get it: %w", Name, l.failed)
	case time.Since(l.looked) >= l.Lasts:
		return fmt.Errorf("ValidatingWebhookConfiguration %s could not be looked at for %s: %w", Name, l.Lasts, cmp.Or(l.failed, errNoAnswer))
	case !l.refusedAt.IsZero() && time.Since(l.refusedAt) < 2*l.Lasts:
		return fmt.Errorf("ValidatingWebhookConfiguration %s was for guards with another Lease; waiting for %s, as one of them may decide so long", Name, 2*l.Lasts)
	default:
		return nil
	}
}
