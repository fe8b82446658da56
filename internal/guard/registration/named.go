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

// ErrOtherLease means that a guard must neither register nor decide: the configuration is for guards with another
// Lease, and one of them decides as well.
var ErrOtherLease = errors.New("two guards would decide")

// errNoAnswer means that no look has succeeded or failed so far.
var errNoAnswer = errors.New("there is no answer yet")

// checkLease returns an ErrOtherLease if a configuration is for guards with another Lease. A configuration without
// the annotation is for any guard.
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

// lookInterval is the interval of a Lookout's looks, and looksPerLease the least number of looks during a Lease: a
// process that has not looked for the duration of a Lease is not a candidate.
const (
	lookInterval  = 2 * time.Second
	looksPerLease = 4
)

// Lookout regularly checks which guards the configuration is for. It is safe for concurrent use.
//
// Other guards must not take part in the election: API servers ask one guard, and do not know which one decides. If
// the configuration changes to this process's Lease, the guards of the other Lease may notice late: they may decide
// until their last look is too old, and then for the rest of their Lease.
type Lookout struct {
	// Client must not be delayed by other requests: a process that cannot look loses the Lease.
	Client kubernetes.Interface
	// Lease is the guards' Lease, as "namespace/name", and Lasts its duration.
	Lease string
	Lasts time.Duration

	mutex sync.Mutex
	// looked is the time when the latest successful look was sent, zero if there was none. failed is the error of
	// later looks.
	looked time.Time
	failed error
	// refused is the ErrOtherLease of that look, nil if there was none. refusedAt is the time of the last
	// ErrOtherLease, zero if there was none.
	refused   error
	refusedAt time.Time
	// path is the path in the configuration; paths has all its recent paths, with the last time that it had each.
	path  string
	paths map[string]time.Time
	// next is closed after the next look that requests wait for, nil if none wait; unknown counts the waiting
	// requests, and again is the time of the last such look.
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
	if sent.Before(l.looked) { // A later look has finished first.
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

// Candidate returns why this process must not hold the Lease at the moment, nil if it may.
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
