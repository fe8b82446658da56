package conflicts

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// pairs reports two claims that hold the same device. overdrafts handles resources that more than two claims can
// overdraw.
type pairs struct {
	*Reporter
	queue workqueue.TypedDelayingInterface[claimPair]
	mutex sync.Mutex
	// since is the time when each open conflict was last found.
	since map[claimPair]time.Time
	// reported holds the reported conflicts, with the time when they were found; only the eviction of a pod may remain.
	// Only the worker uses it.
	reported map[claimPair]time.Time
}

// A claimPair is a conflict to check again.
type claimPair struct {
	later, other types.UID
	cause        allocationlog.Cause
	pool         inventory.PoolID
	device       string
}

func pairOf(c allocationlog.Conflict) claimPair {
	return claimPair{c.Claim.UID, c.Other.UID, c.Cause, c.Pool, c.Device}
}

func newPairs(r *Reporter) *pairs {
	return &pairs{
		Reporter: r,
		queue:    workqueue.NewTypedDelayingQueue[claimPair](),
		since:    make(map[claimPair]time.Time),
		reported: make(map[claimPair]time.Time),
	}
}

func (p *pairs) found(pair claimPair) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.since[pair] = time.Now()
	p.queue.AddAfter(pair, Grace)
}

func (p *pairs) foundAt(pair claimPair) time.Time {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.since[pair]
}

// done forgets a conflict, unless it was found again since the given time.
func (p *pairs) done(pair claimPair, since time.Time) {
	delete(p.reported, pair)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.since[pair].Equal(since) {
		delete(p.since, pair)
	}
}

func (p *pairs) run(ctx context.Context) {
	for {
		pair, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		since := p.foundAt(pair)
		if again := p.handle(ctx, pair, since); again > 0 {
			p.queue.AddAfter(pair, again)
		} else {
			p.done(pair, since)
		}
		p.queue.Done(pair)
	}
}

// handle reports the conflict once if it lasts, and evicts the pods that must go. It returns the time after which to
// check again, 0 for never.
func (p *pairs) handle(ctx context.Context, pair claimPair, since time.Time) (again time.Duration) {
	for _, conflict := range p.Order.Conflicts(pair.later) {
		if pairOf(conflict) != pair {
			continue
		}
		if conflict.Relation == allocationlog.Later && p.foundFromOther(pair) {
			return 0 // The other claim was allocated again, and that conflict was found as well.
		}
		if !p.reported[pair].Equal(since) {
			if left := p.grace() - time.Since(since); left > 0 {
				return left
			}
			if p.Leadership.Leads() != nil {
				return Grace // The leader reports; this process may become the leader.
			}
			p.reported[pair] = since
			p.report(ctx, conflict)
		}
		if p.Profiles.EvictsOnConflict() && (p.Leadership.Leads() != nil || p.evictLater(ctx, conflict)) {
			return Grace
		}
		return 0
	}
	return 0
}

// foundFromOther reports whether the conflict was also found with the claims in the opposite order.
func (p *pairs) foundFromOther(pair claimPair) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for known := range p.since {
		if known.later == pair.other && known.other == pair.later && known.cause == pair.cause && known.pool == pair.pool {
			return true
		}
	}
	return false
}

// report reports a conflict.
func (p *pairs) report(ctx context.Context, c allocationlog.Conflict) {
	count(Conflicts, c.Pool)
	message := "Two claims are in conflict: " + c.String()
	klog.FromContext(ctx).Error(nil, message, "driver", c.Pool.Driver, "pool", c.Pool.Name, "device", c.Device)
	p.tell(c.Claim.ClaimRef, withoutName(message, c.Other.ClaimRef, c.Claim.Namespace))
	p.tell(c.Other.ClaimRef, withoutName(message, c.Claim.ClaimRef, c.Other.Namespace))
}

// withoutName hides a claim's name from users of another namespace: they need not know of it.
func withoutName(message string, claim ledger.ClaimRef, namespace string) string {
	if claim.Namespace == namespace {
		return message
	}
	return strings.ReplaceAll(message, claim.String(), "of another namespace")
}

// evictLater evicts the pods of the claim that was allocated later; if the order is not known, of the claim that the
// watch delivered last. again reports whether a pod has changed meanwhile, so that evictLater must be called again.
func (p *pairs) evictLater(ctx context.Context, c allocationlog.Conflict) (again bool) {
	later := c.Claim
	if c.Relation == allocationlog.Later {
		later = c.Other
	}
	return p.evictUsers(ctx, later.ClaimRef, c.Pool)
}
