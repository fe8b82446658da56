package guard

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Request is a change of a claim's status that somebody has asked the API server for.
type Request struct {
	Claim ledger.ClaimRef
	// Version is the resourceVersion of the claim that the change is for. The server stores
	// it only if the claim has still that version then.
	Version string
	// Before and After are the claim's allocations, nil if it has none.
	Before, After *resourceapi.AllocationResult
	// Requests are those of the claim's spec: as the API server has them if Stored, otherwise as the question
	// says, which need not come from an API server.
	Requests []resourceapi.DeviceRequest
	Stored   bool
	// Unbounded is set for claims of v1alpha2, of which the requests are elsewhere.
	Unbounded bool
	// DryRun is set if the server is not going to store anything.
	DryRun bool
	// Confirmed is set if the API server was asked and has the claim, with its UID and at Version.
	Confirmed bool
}

// Allocates reports whether the claim would have other devices than before. Only such
// requests are of interest.
func (r *Request) Allocates() bool {
	return r.After != nil && !amount.DeepEqual(r.Before, r.After)
}

// Kind says what an Answer is.
type Kind int

const (
	// Allowed requests may be stored.
	Allowed Kind = iota
	// Denied requests must not be. The Answer says who has what was asked for.
	Denied
	// AwaitClaim: what is known of the claim is older than the request. It has to be asked
	// again when that has changed.
	AwaitClaim
	// AwaitConfirmation: nothing shows that there is such a claim at that version. It has to be
	// asked again when the watch has shown it, or with Confirmed.
	AwaitConfirmation
	// AwaitPool: the devices are not known (yet). It has to be asked again when the pool has
	// changed, and if that does not happen, the request is to be denied.
	AwaitPool
	// NotDeciding: this process does not decide (yet, or any more).
	NotDeciding
)

// Answer is what is to be done about a Request.
type Answer struct {
	Kind Kind
	// Reason is set unless the request is allowed: what was asked, what was found, what to do.
	Reason string
	// known is set if the request is allowed because it rests on something old, which the server refuses:
	// the version of the claim that is known here.
	known string
}

// waits reports whether there has to be another answer.
func (a Answer) waits() bool {
	return a.Kind == AwaitClaim || a.Kind == AwaitConfirmation || a.Kind == AwaitPool
}

// Approval is an allocation that may be stored any time.
type Approval struct {
	Claim ledger.ClaimRef
	// Version is the newest one of the claim on which the write can rest.
	Version    string
	allocation *resourceapi.AllocationResult
	// fenced is the version that the claim has got to rule the write out, "" if none.
	fenced string
	// stored is set if the server has had an allocation of the claim since.
	stored bool
	// began is when it was approved.
	began time.Time
	// asked is how often the server has asked, which it does again for a write that it repeats:
	// each time begins anew how long the write may be under way.
	asked int
}

// Book knows what is held and what was approved. It is safe for concurrent use.
type Book struct {
	ledger *ledger.Ledger

	mutex sync.Mutex
	// tenure is the one in which this process decides, zero if it never did.
	tenure    Tenure
	approvals map[types.UID]*Approval
	// named are the approvals' claims by "namespace/name". There is more than one of a name
	// after a claim was deleted and made anew.
	named map[string]sets.Set[types.UID]
	// unstored is what approvals have kept for nothing.
	unstored unstored
	// outage is when nothing could be fenced for the last time, zero if never.
	outage time.Time
	// Ended is told of each approval that has ended, with what has become free. It is called under a
	// lock, and must not call back. It may be nil, and must be set before use.
	Ended func(ledger.ClaimRef, ledger.Freed)
}

// NewBook makes a Book of what a ledger says, which must have Pools.
func NewBook(of *ledger.Ledger) *Book {
	return &Book{ledger: of, approvals: make(map[types.UID]*Approval), named: make(map[string]sets.Set[types.UID])}
}

// Tenure is a time without a break for which a process has the Lease: since when. Between two of
// them others may have decided, also if the process itself has not noticed that.
type Tenure = time.Time

// Decide has this process decide for a tenure, after the Takeover that was begun in it.
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

// user is who has the approved allocation of a claim in flight in the ledger.
func user(claim types.UID) types.UID { return "guard-" + claim }

// Review decides about a request, in a tenure that has to last until the answer is given. If that
// is allowed and not only a dry run, its allocation is in flight from then on.
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
		// It is looked at again if the watch shows something between this and the end.
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
		// The watch may have shown a newer version since.
		if r.DryRun || b.isOver(b.approvals[r.Claim.UID]) {
			b.end(r.Claim.UID)
		}
		return Answer{}
	}
}

// unasked denies admin access that the claim's request does not ask for: it counts nothing, so that
// two claims could have a device. That the namespace permits it, API servers look themselves.
func (r *Request) unasked() (answer Answer, done bool) {
	for i := range r.After.Devices.Results {
		result := &r.After.Devices.Results[i]
		asks := func(request resourceapi.DeviceRequest) bool {
			return request.Name == result.Request && request.Exactly != nil && ptr.Deref(request.Exactly.AdminAccess, false)
		}
		if ptr.Deref(result.AdminAccess, false) && !slices.ContainsFunc(r.Requests, asks) {
			return Answer{Kind: Denied, Reason: fmt.Sprintf(
				"claim %s was to get device %s/%s with admin access for request %s, which does not ask for that; see what has allocated it",
				r.Claim, ledger.PoolOf(result), result.Device, result.Request)}, true
		}
	}
	return Answer{}, false
}

// known answers a request by what is known of its claim.
func (b *Book) known(r *Request, held ledger.ClaimState) (answer Answer, done bool) {
	switch {
	case held.Gone || objectversion.Newer(held.Version, r.Version):
		// The server has decided on something old; it is going to find out when it stores that. It need
		// not be denied: some writes are repeated by the server itself then, on what there is.
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

// approved answers a request for a claim of which an allocation was approved already.
func (b *Book) approved(r *Request) (answer Answer, done bool) {
	approval := b.approvals[r.Claim.UID]
	switch {
	case approval == nil:
		return Answer{}, false
	case approval.Claim == r.Claim && claimwriter.SameAllocation(approval.allocation, r.After):
		// The server asks once more for a write that it repeats, and so may whoever has sent it, by
		// then with another timestamp.
		if !r.DryRun {
			approval.asked++
		}
		if !r.DryRun && objectversion.Newer(r.Version, approval.Version) {
			approval.Version, approval.fenced, approval.stored = r.Version, "", false
		}
		return Answer{}, true
	case objectversion.Newer(r.Version, approval.Version):
		return Answer{Kind: AwaitClaim, Reason: fmt.Sprintf(
			"claim %s has changed since version %s, for which another allocation was approved; waiting for the watch of claims",
			r.Claim, approval.Version)}, true
	default:
		return Answer{Kind: Denied, Reason: fmt.Sprintf(
			"another allocation of claim %s was approved a moment ago and may be stored yet; try again", r.Claim)}, true
	}
}
