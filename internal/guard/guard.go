package guard

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/leadership"
)

// patience is how long a request waits for what is not known here yet and usually comes within
// milliseconds: a new version of its claim, or a slice. It is well below the time that the API
// server gives the webhook.
const patience = time.Second

// Mode is what a guard does about allocations that must not be stored.
type Mode string

const (
	// Enforce denies them.
	Enforce Mode = "Enforce"
	// Warn lets them pass, and only counts and reports them: to see what Enforce would do.
	Warn Mode = "Warn"
)

// Guard answers requests with what its Book says. It is safe for concurrent use.
type Guard struct {
	Book *Book
	// Lease says whether this process may decide, at the moment when it answers.
	Lease *leadership.Lease
	// Lookup finds out whether a claim exists that the watch has not shown.
	Lookup *Lookup
	// Warned is told what was let pass in mode Warn, nil otherwise.
	Warned func(r *Request, reason string)

	waiting waiting
	fences  fences
}

// Review decides about a request. It waits as long as that may help, for patience at most. The
// answer is Allowed, Denied or NotDeciding.
func (g *Guard) Review(ctx context.Context, r *Request) Answer {
	if !r.Allocates() {
		return Answer{}
	}
	tenure := g.Lease.Since()
	answer := g.review(ctx, tenure, r)
	if answer.Kind == Denied && g.Warned != nil {
		g.Warned(r, answer.Reason)
		answer = Answer{}
	}
	// Nobody else has decided meanwhile: this process has had the Lease all the time.
	if err := g.Lease.Leads(); err != nil {
		return Answer{Kind: NotDeciding, Reason: err.Error()}
	}
	if !g.Lease.Since().Equal(tenure) {
		return Answer{Kind: NotDeciding, Reason: "this process did not have the Lease for a while"}
	}
	return answer
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
		// It may have changed before anybody waited for that.
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

// ClaimChanged tells the guard that the ledger may know a newer state of a claim, by
// "namespace/name".
func (g *Guard) ClaimChanged(claim string) {
	g.Book.Seen(claim)
	g.waiting.claimChanged(claim)
}

// SliceChanged tells the guard that the inventory has changed.
func (g *Guard) SliceChanged() { g.waiting.allChanged() }
