package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// patience limits the time that a request waits for facts that are unknown so far and usually arrive within
// milliseconds: a new version of its claim, or a slice. It is well below the API server's timeout for the webhook.
const patience = time.Second

// Mode says whether a guard denies allocations that must not be stored.
type Mode string

const (
	// Enforce denies them.
	Enforce Mode = "Enforce"
	// Warn lets them pass, and only counts and reports them, to show the effect of Enforce.
	Warn Mode = "Warn"
)

// StoredClaims has the claims that the API server has stored.
type StoredClaims interface {
	// Claim returns a claim as the watch has shown it, by "namespace/name", nil if it has not.
	Claim(key string) *resourceapi.ResourceClaim
}

// Guard answers requests with the decisions of its Book. It is safe for concurrent use.
type Guard struct {
	Book *Book
	// Lease says whether this process may decide at the moment of the answer.
	Lease *lease.Lease
	// Lookup checks whether a claim exists that the watch has not shown.
	Lookup *Lookup
	// Mode says whether denied requests pass all the same. It is Enforce unless set.
	Mode Mode
	// Stored has the claims as the watch has shown them. It is nil where only API servers send requests.
	Stored StoredClaims
	// History says whether the API server's store went back to an earlier state.
	History *informer.History

	waiting waiting
	fences  fences
}

// Review decides about a request. It waits while waiting may help, for at most patience. The answer is Allowed,
// Denied or NotDeciding.
func (g *Guard) Review(ctx context.Context, r *Request) Answer {
	if !r.Allocates() {
		return Answer{}
	}
	tenure := g.Lease.Since()
	answer := g.reviewKnown(ctx, tenure, r)
	if answer.Kind == Denied && g.Mode == Warn {
		klog.FromContext(ctx).Info("Would have denied an allocation, but for mode Warn", "claim", r.Claim, "reason", answer.Reason)
		answer = Answer{}
	}
	// These checks make sure that no other process has decided meanwhile: this process has held the Lease without a
	// break.
	if err := g.Lease.Leads(); err != nil {
		return Answer{Kind: NotDeciding, Reason: err.Error()}
	}
	if !g.Lease.Since().Equal(tenure) {
		return Answer{Kind: NotDeciding, Reason: "this process did not have the Lease for a while"}
	}
	return answer
}

// reviewKnown works like review, for an API server whose store may have gone back to an earlier state.
func (g *Guard) reviewKnown(ctx context.Context, tenure Tenure, r *Request) Answer {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := g.History.Known(bounded); errors.Is(err, informer.ErrWentBack) {
		return Answer{Kind: NotDeciding, Reason: err.Error()}
	} else if err != nil {
		return Answer{Kind: Denied, Reason: fmt.Sprintf(
			"claim %s was to be allocated, but the API server does not tell the guard whether its store was restored from a backup; try again: %v", r.Claim, err)}
	}
	if answer, done := g.Book.overused(r); done {
		return answer
	}
	answer := g.review(ctx, tenure, g.withStored(r))
	if answer.known == "" || r.DryRun {
		return answer
	}
	stored := g.Lookup.find(bounded, r.Claim)
	switch {
	case stored.err != nil:
		return Answer{Kind: Denied, Reason: fmt.Sprintf("claim %s was to be allocated at version %s, but has version %s as far as is known here; try again: %v",
			r.Claim, r.Version, answer.known, stored.err)}
	case informer.Newer(answer.known, stored.version):
		err := fmt.Errorf("claim %s had version %s, and has %s: %w", r.Claim, answer.known, stored.version, informer.ErrWentBack)
		g.History.Report(err)
		return Answer{Kind: NotDeciding, Reason: err.Error()}
	default:
		return answer
	}
}

// withStored returns the request with the stored requests of the claim's spec, if they are known. Specs are
// immutable.
func (g *Guard) withStored(r *Request) *Request {
	if g.Stored == nil {
		return r
	}
	claim := g.Stored.Claim(r.Claim.String())
	if claim == nil || claim.UID != r.Claim.UID {
		return r
	}
	known := *r
	known.Requests, known.Stored = claim.Spec.Devices.Requests, true
	return &known
}

func (g *Guard) review(ctx context.Context, tenure Tenure, r *Request) Answer {
	answer := g.Book.Review(tenure, r)
	if !answer.waits() {
		return answer
	}
	ctx, giveUp := context.WithTimeout(ctx, patience)
	defer giveUp()
	waiter := g.waiting.join(r.Claim.String(), giveUp)
	defer g.waiting.leave(waiter)
	klog.FromContext(ctx).V(4).Info("A request about an allocation waits", "claim", r.Claim, "reason", answer.Reason)
	var looked <-chan lookup
	for {
		// The state may have changed before this request began to wait.
		if answer = g.Book.Review(tenure, r); !answer.waits() {
			return answer
		}
		if answer.Kind == AwaitConfirmation && looked == nil {
			looked = g.Lookup.begin(ctx, r.Claim)
		}
		select {
		case <-waiter.changed:
		case found := <-looked:
			var done bool
			if r, answer, done = found.judge(ctx, r); done {
				return answer
			}
		case <-ctx.Done():
			answer.Kind = Denied
			return answer
		}
	}
}

// Decides reports whether this process decides now.
func (g *Guard) Decides() bool { return g.Book.DecidesIn(g.Lease.Since()) && g.Lease.Leads() == nil }

// ClaimChanged tells the guard that the ledger may have a newer state of a claim ("namespace/name").
func (g *Guard) ClaimChanged(claim string) {
	g.Book.Seen(claim)
	g.waiting.claimChanged(claim)
}

// SliceChanged tells the guard that the inventory has changed.
func (g *Guard) SliceChanged() { g.waiting.allChanged() }
