package guard

import (
	"errors"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Request is a requested change of a claim's status.
type Request struct {
	Claim ledger.ClaimRef
	// Version is the resourceVersion of the claim that the change is based on. The server stores the change only if
	// the claim still has that version.
	Version string
	// Before and After are the claim's allocations, nil if it has none.
	Before, After *resourceapi.AllocationResult
	// Requests are the requests of the claim's spec: from the API server if Stored is set, otherwise from the review,
	// which may not come from an API server.
	Requests []resourceapi.DeviceRequest
	Stored   bool
	// Unbounded is set for claims of v1alpha2, whose requests are in other objects.
	Unbounded bool
	// DryRun is set if the server will not store anything.
	DryRun bool
	// Consumers are those that the claim is reserved for after the change.
	Consumers []resourceapi.ResourceClaimConsumerReference
	// Confirmed is set if the API server has confirmed that the claim exists, with its UID and at Version.
	Confirmed bool
}

// Allocates reports whether the change gives the claim new devices. Only such requests need a decision.
func (r *Request) Allocates() bool {
	return r.After != nil && !quantity.DeepEqual(r.Before, r.After)
}

// Kind is the kind of an Answer.
type Kind int

const (
	// Allowed requests may be stored.
	Allowed Kind = iota
	// Denied requests must not be stored. The Answer names the holder of the requested devices.
	Denied
	// AwaitClaim means that the ledger's version of the claim is older than the request. Review must run again after
	// the claim changes in the ledger.
	AwaitClaim
	// AwaitConfirmation means that nothing shows that the claim exists at that version. Review must run again after
	// the watch has shown it, or with Confirmed.
	AwaitConfirmation
	// AwaitPool means that the devices are unknown so far. Review must run again after the pool changes; if it does
	// not change, the request must be denied.
	AwaitPool
	// NotDeciding means that this process does not decide at the moment.
	NotDeciding
)

// Answer is the decision about a Request.
type Answer struct {
	Kind Kind
	// Reason is set unless the request is allowed: what was asked, what was found, and how to fix it.
	Reason string
	// known is set if the request is allowed only because it is based on an old version, which the server refuses: it
	// is the version of the claim in the ledger.
	known string
}

// waits reports whether Review must run again.
func (a Answer) waits() bool {
	return a.Kind == AwaitClaim || a.Kind == AwaitConfirmation || a.Kind == AwaitPool
}

// Approval is an allocation that may be stored at any time.
type Approval struct {
	Claim ledger.ClaimRef
	// Version is the newest version of the claim that the write can be based on.
	Version    string
	allocation *resourceapi.AllocationResult
	// fenced is the version of the claim that rules out the write, "" if there is none.
	fenced string
	// stored is set if the server has had an allocation of the claim since the approval.
	stored bool
	// began is the time of the approval.
	began time.Time
	// asked counts the reviews of this write. The server asks again if it repeats the write, and each review restarts
	// the time for which the write may be under way.
	asked int
}

// Book tracks held and approved allocations. It is safe for concurrent use.
type Book struct {
	ledger *ledger.Ledger

	mutex sync.Mutex
	// tenure is the tenure in which this process decides, zero if it never did.
	tenure    Tenure
	approvals map[types.UID]*Approval
	// named lists the approved claims by "namespace/name". A name has several claims after a claim was deleted and
	// created again.
	named map[string]sets.Set[types.UID]
	// unstored tracks the time for which approvals blocked devices in vain.
	unstored unstored
	// outage is the time of the last outage, zero if there was none.
	outage time.Time
	// Scheduler is the scheduler in the same process, nil if there is none. It must be set before use.
	Scheduler Scheduler
}

// Scheduler is a scheduler in the guard's process.
type Scheduler interface {
	// ApprovalEnded is called with each claim whose approved allocation was stored or cannot be stored any more, and with
	// the devices that became free. It is called with a lock held, and must not call the guard.
	ApprovalEnded(claim ledger.ClaimRef, freed ledger.Freed)
	// HeldFrom returns why another scheduler must not give devices to a claim, although they are free: what is held, and for whom.
	// "" stands for no reason. It is called with the same lock held.
	HeldFrom(claim ledger.ClaimRef, allocation *resourceapi.AllocationResult, consumers []resourceapi.ResourceClaimConsumerReference) string
}

// NewBook returns a Book on a ledger, which must have Pools.
func NewBook(of *ledger.Ledger) *Book {
	return &Book{ledger: of, approvals: make(map[types.UID]*Approval), named: make(map[string]sets.Set[types.UID])}
}

// Tenure is the start of an unbroken period in which a process holds the Lease. Between two tenures other processes
// may have decided, even if this process has not noticed it.
type Tenure = time.Time

// Decide makes this process decide for a tenure, after the Handover of that tenure.
func (b *Book) Decide(tenure Tenure) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if tenure.After(b.tenure) {
		b.tenure = tenure
	}
}

// DecidesIn reports whether this process decides in a tenure.
func (b *Book) DecidesIn(tenure Tenure) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return !tenure.IsZero() && tenure.Equal(b.tenure)
}

// user returns the ledger's user of a claim's approved allocation.
func user(claim types.UID) types.UID { return "guard-" + claim }

// Review decides about a request, in a tenure that must last until the answer is sent. If it allows the request and
// this is not a dry run, the allocation is in flight from then on.
func (b *Book) Review(tenure Tenure, r *Request) Answer {
	if !r.Allocates() {
		return Answer{}
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if tenure.IsZero() || !tenure.Equal(b.tenure) {
		return Answer{Kind: NotDeciding, Reason: "this process does not decide about allocations (now); another one may"}
	}
	if r.Before != nil {
		return Answer{Kind: Denied, Reason: fmt.Sprintf("claim %s is allocated; it has to be deallocated before it can get other devices", r.Claim)}
	}
	if answer, done := r.unasked(); done {
		return answer
	}
	for {
		// AddReviewed fails with ErrChanged if the watch changes this state meanwhile.
		state := b.ledger.State(r.Claim.UID)
		if answer, done := b.known(r, state); done {
			return answer
		}
		if answer, done := b.approved(r); done {
			return answer
		}
		if answer, done := r.unwanted(); done {
			return answer
		}
		if b.Scheduler != nil && b.ledger.InFlight(r.Claim.UID) == nil { // The scheduler in this process leaves alone what is held.
			if reason := b.Scheduler.HeldFrom(r.Claim, r.After, r.Consumers); reason != "" {
				return Answer{Kind: Denied, Reason: reason}
			}
		}
		err := b.ledger.AddReviewed(r.Claim, user(r.Claim.UID), r.After, state)
		if errors.Is(err, ledger.ErrChanged) {
			continue
		}
		var unpublished *ledger.UnpublishedError
		switch {
		case errors.As(err, &unpublished):
			return Answer{Kind: AwaitPool, Reason: err.Error()}
		case err != nil:
			return Answer{Kind: Denied, Reason: err.Error()}
		}
		b.begin(r)
		// The watch may have shown a newer version meanwhile.
		if r.DryRun || b.isOver(b.approvals[r.Claim.UID]) {
			b.end(r.Claim.UID)
		}
		return Answer{}
	}
}

// unasked denies admin access that the claim's request does not ask for: admin access does not count as use, so two
// claims could get a device. API servers check that the namespace permits admin access.
func (r *Request) unasked() (answer Answer, done bool) {
	for i := range r.After.Devices.Results {
		result := &r.After.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) && !r.asksForAdminAccess(result.Request) {
			return Answer{Kind: Denied, Reason: fmt.Sprintf(
				"claim %s was to get device %s/%s with admin access for request %s, which does not ask for that; see what has allocated it",
				r.Claim, ledger.PoolOf(result), result.Device, result.Request)}, true
		}
	}
	return Answer{}, false
}

func (r *Request) asksForAdminAccess(name string) bool {
	for request := range dra.RequestsIn(r.Requests) {
		if request.Is(name) && request.AdminAccess {
			return true
		}
	}
	return false
}

// known answers a request from the ledger's state of its claim.
func (b *Book) known(r *Request, held ledger.ClaimState) (answer Answer, done bool) {
	switch {
	case held.Gone || informer.Newer(held.Version, r.Version):
		// The server has decided on an old version, and refuses the write when it stores it. There is no need to
		// deny: the server itself repeats some writes on the current version.
		return Answer{known: held.Version}, true
	case held.Committed != nil:
		return Answer{Kind: AwaitClaim, Reason: fmt.Sprintf(
			"claim %s was allocated at version %s as far as is known here, and is not at version %s; waiting for the watch of claims",
			r.Claim, held.Version, r.Version)}, true
	case !r.DryRun && !r.Confirmed && !b.exists(r):
		return Answer{Kind: AwaitConfirmation, Reason: fmt.Sprintf(
			"claim %s with UID %s is not known here at version %s; waiting for the watch of claims, and for the API server to say whether it exists",
			r.Claim, r.Claim.UID, r.Version)}, true
	default:
		return Answer{}, false
	}
}

// approved answers a request for a claim that already has an approved allocation.
func (b *Book) approved(r *Request) (answer Answer, done bool) {
	approval := b.approvals[r.Claim.UID]
	switch {
	case approval == nil:
		return Answer{}, false
	case approval.Claim == r.Claim && write.SameAllocation(approval.allocation, r.After):
		// The server asks again for a write that it repeats. The client may repeat it too, with another timestamp.
		if !r.DryRun {
			approval.asked++
		}
		if !r.DryRun && informer.Newer(r.Version, approval.Version) {
			approval.Version, approval.fenced, approval.stored = r.Version, "", false
		}
		return Answer{}, true
	case informer.Newer(r.Version, approval.Version):
		return Answer{Kind: AwaitClaim, Reason: fmt.Sprintf(
			"claim %s has changed since version %s, for which another allocation was approved; waiting for the watch of claims",
			r.Claim, approval.Version)}, true
	default:
		return Answer{Kind: Denied, Reason: fmt.Sprintf(
			"another allocation of claim %s was approved a moment ago and may be stored yet; try again", r.Claim)}, true
	}
}
