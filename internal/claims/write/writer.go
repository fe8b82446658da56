package write

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// FieldManager is the field manager of all writes (metadata.managedFields). All processes of this
// scheduler share it, so that each recognises allocations that another one made by the same rules.
const FieldManager = "quartermaster"

// updateOptions returns the options of every update.
func updateOptions() metav1.UpdateOptions {
	return metav1.UpdateOptions{FieldManager: FieldManager}
}

// Writer writes the allocation and the consumers of ResourceClaims. All methods are safe for
// concurrent use. Calls for the same claim are carried out one after the other, and each starts
// from the state that the one before it left, so that pods that share a claim do not cause write
// conflicts for each other.
//
// Claims that are passed in are never modified, and the returned ones belong to the caller.
type Writer struct {
	Options
	server kubernetes.Interface
	client resourceclient.ResourceClaimsGetter
	// clock provides status.allocation.allocationTimestamp.
	clock clock.PassiveClock
	// sleep waits for the duration or until the context is done; in the latter
	// case it returns the context's error.
	sleep func(context.Context, time.Duration) error
	// random returns a number in [0, 1) for the jitter of pauses.
	random func() float64
	groups groupWrites
	// busy makes calls for one claim UID wait for each other.
	busy ClaimLocks
}

// Options say what a Writer asks and tells about its writes. The zero value permits all writes, and tells nobody.
type Options struct {
	// WithoutTimestamp leaves out the allocationTimestamp of allocations, which belongs to the feature gate
	// DRADeviceBindingConditions.
	WithoutTimestamp bool
	// Limits has the number of consumers that a claim can have at the same time; nil stands for the limit of v1,
	// resourceapi.ResourceClaimReservedForMaxSize.
	Limits Limits
	// Permission is asked before each write: if it returns an error, the write is not sent, and the operation ends with
	// that error. It is asked after the write was decided, so a decision from before the end of the permission is not
	// written later.
	Permission Permission
	// Guards is told of stored allocations.
	Guards Guards
	// Changed is called after each change of an allocation that the server has confirmed: in its answer to the write or,
	// if that was lost, in the state that was read afterwards. It must return at once. It is not called for a write with
	// unknown outcome (ErrOutcomeUnknown).
	Changed func(context.Context, Change)
}

// Limits has the limits of an API server.
type Limits interface {
	// ConsumerLimit returns the maximum number of consumers of a claim.
	ConsumerLimit(*resourceapi.ResourceClaim) int
}

func (w *Writer) consumerLimit(claim *resourceapi.ResourceClaim) int {
	if w.Limits == nil {
		return resourceapi.ResourceClaimReservedForMaxSize
	}
	return w.Limits.ConsumerLimit(claim)
}

// Permission says whether a process may write: its lease.
type Permission interface {
	// Leads returns why writes are forbidden, nil if they are permitted.
	Leads() error
}

// Guards finds out whether a guard is in place.
type Guards interface {
	// Stored is called when an allocation was stored. asked says whether the API server has asked a
	// guard about it, see GuardWarning.
	Stored(asked bool)
}

// Observer is told what a write has left of a claim, as the server has returned it: nil if the claim is gone.
type Observer interface {
	Observe(ctx context.Context, claim, left *resourceapi.ResourceClaim)
}

// New returns a Writer that uses the client for all requests. See the package documentation for the
// permissions that it needs.
func New(client kubernetes.Interface, options Options) *Writer {
	return &Writer{
		Options: options,
		server:  client,
		client:  client.ResourceV1(),
		clock:   clock.RealClock{},
		sleep:   sleep,
		random:  rand.Float64,
		groups:  newGroupWrites(),
	}
}

// operation is one change of one claim.
type operation struct {
	// claim is the claim that the caller looked at. It identifies the object by namespace, name and
	// UID and must not be modified.
	claim *resourceapi.ResourceClaim
	// asked completes "asked to ..." in error texts.
	asked string
	// decide looks at a state of the claim with the right UID. It returns the
	// write that brings the claim nearer to the goal, or a refusal if the goal
	// cannot be reached from that state, or neither if the goal is reached.
	decide func(current *resourceapi.ResourceClaim) (write, *refusal)
	// confirm looks at the state in which the goal is reached, before the next operation for the claim begins. nil does nothing.
	confirm func(ctx context.Context, op *operation, state *resourceapi.ResourceClaim) error
	// allocation is the allocation that the operation stores, nil if none.
	allocation *resourceapi.AllocationResult
	// binds is set for Bind; all other operations take something away. deletes is set for Remove.
	binds, deletes bool
	// evidence is about the consumers that the operation takes something from.
	evidence []Unbound
}

// write sends one modified copy of a claim to the server and returns the answer.
type write func(context.Context) (*resourceapi.ResourceClaim, error)

func (op *operation) key() string {
	return op.claim.Namespace + "/" + op.claim.Name
}

// maxAccepted limits the consecutive writes that the server accepts before the goal must be
// reached: finalizer, then status. Remove may additionally have to delete the claim.
const maxAccepted = 2

func (op *operation) mostAccepted() int {
	if op.deletes {
		return maxAccepted + 1
	}
	return maxAccepted
}

// run carries out the operation, after earlier ones for the same claim, and returns the claim as
// the server has it.
func (w *Writer) run(ctx context.Context, op *operation) (*resourceapi.ResourceClaim, error) {
	if err := op.validate(); err != nil {
		return nil, err
	}
	turn, err := w.busy.Lock(ctx, op.claim.UID)
	if err != nil {
		return nil, fmt.Errorf("claim %s: asked to %s but another write to the claim did not finish in time; nothing was written: %w", op.key(), op.asked, err)
	}
	var state *resourceapi.ResourceClaim
	defer func() { turn.End(state) }()
	if !op.binds {
		defer w.groups.forget(op.claim.UID)
	}
	base := newer(op.claim, turn.latest())
	// If a hundred pods of a group wait for each other, only one must ask the server whether the
	// claim is still as it was written for the first of them.
	if state, err = w.carryOut(ctx, op, base, base == turn.latest() && turn.upToDate()); err != nil {
		return nil, err
	}
	if op.confirm != nil {
		if err := op.confirm(ctx, op, state); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// newer returns the state on which to base the first write: the state that the previous call left,
// if it is certainly as new as the caller's copy. Pods that share a claim and are bound at the same
// time all have the same copy, and each write makes it stale for the others.
func newer(own, left *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	if left != nil && informer.AtLeast(left.ResourceVersion, own.ResourceVersion) {
		return left
	}
	return own
}

// carryOut does the work of run. It begins with the state base, which may be stale; upToDate says
// that base was requested from the server while the call waited for its turn. It returns the state
// that the server returned last, even if that state makes the goal unreachable; nil after all other
// errors.
//
// Invariants of the loop:
//   - "refused" is only concluded from a state that came from the server during this turn
//     (trusted), and "done" from that or from one that is up to date;
//   - after a failed write, the next write is decided on a state that was read
//     after the failure;
//   - nothing is taken from a consumer on a state that was read after the server was asked whether the
//     consumer is bound: then the server is asked once more.
func (w *Writer) carryOut(ctx context.Context, op *operation, base *resourceapi.ResourceClaim, upToDate bool) (*resourceapi.ResourceClaim, error) {
	current, trusted, asked, err := base, false, base == op.claim, error(nil)
	failures := failureLog{op: op}
	for accepted := 0; ; {
		next, refused := op.decide(current)
		done := next == nil && refused == nil
		if !trusted && (refused != nil || done && !upToDate || current.ResourceVersion == "") {
			// A write without resourceVersion would be unconditional.
			if current, err = w.read(ctx, &failures); err != nil {
				return nil, err
			}
			trusted, asked = true, false
			continue
		}
		switch {
		case refused != nil:
			return current, refused.asError(op)
		case done:
			return current, nil
		case accepted == op.mostAccepted():
			return nil, fmt.Errorf("claim %s: asked to %s; the server accepted the write but its answer does not show the change; check the admission webhooks for resourceclaims", op.key(), op.asked)
		}
		if !asked {
			if err := op.askAgain(ctx); err != nil {
				return nil, failures.wrap(fmt.Errorf("claim %s: asked to %s but it has changed since the server was asked about the consumer: %w", op.key(), op.asked, err))
			}
			asked = true
		}
		if err := w.permitted(ctx, &failures); err != nil {
			return nil, err
		}
		before := current
		updated, err := next(ctx)
		if err == nil {
			w.told(ctx, before, updated)
			current, trusted = updated, true
			accepted++
			continue
		}
		accepted = 0
		current, err = w.recover(ctx, &failures, before, err)
		if failures.unanswered {
			w.toldLate(ctx, op, before, current, err)
		}
		if err != nil {
			return nil, err
		}
		trusted, asked = true, false
	}
}

// askAgain returns an error unless the evidence still holds.
func (op *operation) askAgain(ctx context.Context) error {
	for _, unbound := range op.evidence {
		if err := unbound.Holds(ctx); err != nil {
			return err
		}
	}
	return nil
}

// permitted returns an error if another write must not be attempted.
func (w *Writer) permitted(ctx context.Context, failures *failureLog) error {
	if err := failures.mayWrite(ctx); err != nil {
		return err
	}
	if w.Permission != nil {
		if err := w.Permission.Leads(); err != nil {
			return failures.stopped(err)
		}
	}
	return nil
}

// recover handles the failure of a write that was based on the state base. It returns the state
// from which to continue.
func (w *Writer) recover(ctx context.Context, failures *failureLog, base *resourceapi.ResourceClaim, failure error) (*resourceapi.ResourceClaim, error) {
	kind := failures.addWrite(failure, base.ResourceVersion)
	if err := w.pause(ctx, failures); err != nil {
		return nil, err
	}
	current, err := w.read(ctx, failures)
	if kind != final || errors.Is(err, ErrDeleted) || errors.Is(err, ErrReplaced) {
		return current, err
	}
	// The server refused. If the state of the claim explains why, the decision on that state is the
	// better answer.
	if err == nil {
		if next, _ := failures.op.decide(current); next == nil {
			return current, nil
		}
	}
	return nil, failures.wrap(fmt.Errorf("claim %s: asked to %s but the server refused to store that: %w", failures.op.key(), failures.op.asked, failure))
}

// read gets the claim from the server (not from a cache). The error is ErrDeleted or ErrReplaced
// when the object does not exist any more. Failures that may be temporary are retried within the
// limits of the failure log.
func (w *Writer) read(ctx context.Context, failures *failureLog) (*resourceapi.ResourceClaim, error) {
	op := failures.op
	for {
		claim, err := w.client.ResourceClaims(op.claim.Namespace).Get(ctx, op.claim.Name, metav1.GetOptions{})
		if err == nil && claim.UID == op.claim.UID {
			failures.saw(claim.ResourceVersion)
			return claim, nil
		}
		if err == nil {
			return nil, refusal{
				reason: ErrReplaced,
				found:  fmt.Sprintf("UID %s instead of %s", claim.UID, op.claim.UID),
				next:   "start again with the new claim of this name",
			}.asError(op)
		}
		switch failures.addRead(err) {
		case gone:
			return nil, refusal{
				reason: ErrDeleted,
				found:  "no such claim",
				next:   "it has to be created again before anything can use it",
			}.asError(op)
		case final:
			return nil, failures.wrap(fmt.Errorf("claim %s: asked to %s but the claim cannot be read: %w", op.key(), op.asked, err))
		}
		if err := failures.mayContinue(); err != nil {
			return nil, err
		}
		if err := w.pause(ctx, failures); err != nil {
			return nil, err
		}
	}
}

// validate rejects arguments that can only come from a bug in the caller.
func (op *operation) validate() error {
	if op.claim.Name == "" || op.claim.Namespace == "" || op.claim.UID == "" {
		return fmt.Errorf("claim %s: asked to %s; found namespace %q and name %q and UID %q; all three have to be set; this is a bug in the caller", op.key(), op.asked, op.claim.Namespace, op.claim.Name, op.claim.UID)
	}
	for _, unbound := range op.evidence {
		if err := unbound.check(op); err != nil {
			return err
		}
	}
	return nil
}
