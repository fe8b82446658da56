package write

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failureKind is the consequence of a failed request for the operation.
type failureKind int

const (
	// final: the server refused; the same request would be refused again.
	final failureKind = iota
	// gone: the server does not have the object.
	gone
	// writeConflict: the object has changed since it was read (409).
	writeConflict
	// transient: the same request may succeed later. A write may also have taken effect already:
	// the response was lost, or the server failed afterwards.
	transient
)

// Limits per call of a Writer method. Write conflicts come from other processes only
// (drivers, controllers, other schedulers) because calls for one claim wait for
// each other; each of them is a sign of progress elsewhere.
const (
	maxWriteConflicts = 10
	maxTransients     = 5
)

// Pauses grow by a factor of two from base to limit. They are randomized by
// +/- 50%.
const (
	writeConflictPauseBase  = 10 * time.Millisecond
	writeConflictPauseLimit = 500 * time.Millisecond
	transientPauseBase      = 100 * time.Millisecond
	transientPauseLimit     = 5 * time.Second
)

// classify maps the error of a request.
func classify(err error) failureKind {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		// No answer of the server: no connection, cut connection, timeout, unreadable response.
		return transient
	}
	switch {
	case apierrors.IsConflict(err):
		return writeConflict
	case apierrors.IsNotFound(err):
		return gone
	}
	switch status.Status().Reason {
	case metav1.StatusReasonTooManyRequests, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return transient
	}
	if code := status.Status().Code; code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
		return transient
	}
	return final
}

// IsTransient reports whether a repetition of the failed request may succeed later. A write may
// have taken effect already.
func IsTransient(err error) bool { return classify(err) == transient }

// failureLog counts the failures of one operation and knows whether some write
// might still take effect.
type failureLog struct {
	op             *operation
	writeConflicts int
	transients     int
	last           error
	lastKind       failureKind
	// pendingBase is the resourceVersion on which a write with unknown outcome was based, empty if
	// there is none. While the server still shows that version, the write may yet arrive; once it
	// shows another one, the write has taken effect or has become impossible.
	pendingBase string
	// unanswered is set once it is unknown whether a write has arrived.
	unanswered bool
}

// addWrite records the failure of a write that was based on the resourceVersion.
func (f *failureLog) addWrite(err error, base string) failureKind {
	kind := f.addRead(err)
	if kind == transient {
		f.pendingBase, f.unanswered = base, true
	}
	return kind
}

// addRead records the failure of a request that changes nothing.
func (f *failureLog) addRead(err error) failureKind {
	f.last, f.lastKind = err, classify(err)
	switch f.lastKind {
	case writeConflict:
		f.writeConflicts++
	case transient:
		f.transients++
	}
	return f.lastKind
}

// saw records the server's resourceVersion of the claim.
func (f *failureLog) saw(resourceVersion string) {
	if resourceVersion != f.pendingBase {
		f.pendingBase = ""
	}
}

// mayContinue returns an error if there were too many failures.
func (f *failureLog) mayContinue() error {
	if f.writeConflicts <= maxWriteConflicts && f.transients <= maxTransients {
		return nil
	}
	return f.wrap(fmt.Errorf("claim %s: asked to %s; gave up after %d write conflicts and %d other failures; the pod gets scheduled again later: %w",
		f.op.key(), f.op.asked, f.writeConflicts, f.transients, f.last))
}

// mayWrite returns an error if another write must not be attempted.
func (f *failureLog) mayWrite(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return f.stopped(err)
	}
	return f.mayContinue()
}

// stopped returns the error for an operation that ends because its context is
// done.
func (f *failureLog) stopped(cause error) error {
	if f.last == nil {
		return fmt.Errorf("claim %s: asked to %s but was told to stop; nothing was written: %w", f.op.key(), f.op.asked, cause)
	}
	return f.wrap(fmt.Errorf("claim %s: asked to %s but was told to stop before trying again after %q: %w", f.op.key(), f.op.asked, f.last, cause))
}

// wrap adds ErrOutcomeUnknown if the outcome of a write is unknown.
func (f *failureLog) wrap(err error) error {
	if f.pendingBase == "" {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// pause waits for the delay after the last failure.
func (w *Writer) pause(ctx context.Context, f *failureLog) error {
	delay := f.delay(w.random())
	if delay == 0 {
		return nil
	}
	if err := w.sleep(ctx, delay); err != nil {
		return f.stopped(err)
	}
	return nil
}

// delay returns how long to wait after the last failure; random is in [0, 1).
func (f *failureLog) delay(random float64) time.Duration {
	switch f.lastKind {
	case writeConflict:
		if f.writeConflicts == 1 {
			// Usually the caller's copy was stale: a fresh one helps at once.
			return 0
		}
		return backoff(writeConflictPauseBase, writeConflictPauseLimit, f.writeConflicts-1, random)
	case transient:
		delay := backoff(transientPauseBase, transientPauseLimit, f.transients, random)
		if seconds, ok := apierrors.SuggestsClientDelay(f.last); ok {
			delay = max(delay, time.Duration(seconds)*time.Second)
		}
		return delay
	default:
		return 0
	}
}

// backoff returns the randomized pause after the n-th failure, counted from 1.
func backoff(base, limit time.Duration, n int, random float64) time.Duration {
	delay := base
	for i := 1; i < n && delay < limit; i++ {
		delay *= 2
	}
	delay = min(delay, limit)
	return time.Duration((0.5 + random) * float64(delay))
}

// sleep is the default of Writer.sleep.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
