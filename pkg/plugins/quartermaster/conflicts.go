package quartermaster

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// conflictGrace is how long two claims may hold the same before that is reported, not
// counting the time for which they settle. What instances of ours find out before they bind
// is undone within that time.
const conflictGrace = 5 * time.Second

// conflictReporter tells everybody concerned when two claims hold the same device and nobody
// yields: events on both claims and on the pods that use them, and a metric. What more than
// two claims can have too much of is the overdraftReporter's.
type conflictReporter struct {
	pl    *Quartermaster
	queue workqueue.TypedDelayingInterface[claimPair]
	mutex sync.Mutex
	// since is when each conflict that has not been dealt with was found the last time.
	since map[claimPair]time.Time
	// reported are the conflicts, with when they were found, of which everybody has been
	// told; what remains to be done is to evict a pod. Only the worker uses it.
	reported map[claimPair]time.Time
}

// claimPair is a conflict to look at again.
type claimPair struct {
	later, other types.UID
	cause        claimlog.Cause
	pool         inventory.PoolID
	device       string
}

func pairOf(c claimlog.Conflict) claimPair {
	return claimPair{c.Claim.UID, c.Other.UID, c.Cause, c.Pool, c.Device}
}

// report has the first plugin of the scheduler report conflicts, until the context ends. Only
// then does the order begin to find any.
func (s *shared) report(pl *Quartermaster, ctx context.Context) {
	s.profilesMutex.Lock()
	s.profiles = append(s.profiles, pl)
	s.profilesMutex.Unlock()
	s.reporting.Do(func() {
		r := &conflictReporter{
			pl:       pl,
			queue:    workqueue.NewTypedDelayingQueue[claimPair](),
			since:    make(map[claimPair]time.Time),
			reported: make(map[claimPair]time.Time),
		}
		s.Order.OnConflict(func(c claimlog.Conflict) { r.found(pairOf(c)) })
		go s.Order.Run(ctx)
		go func() {
			<-ctx.Done()
			r.queue.ShutDown()
		}()
		go r.run(ctx)
		go newOverdraftReporter(pl).run(ctx)
	})
}

// allProfiles returns the plugins that share the state.
func (s *shared) allProfiles() []*Quartermaster {
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	return slices.Clone(s.profiles)
}

// grace is conflictGrace after claims have settled. It grows while other schedulers get
// behind with their writes, as the time for which claims settle does.
func (s *shared) grace() time.Duration {
	var settling time.Duration
	for _, pl := range s.allProfiles() {
		settling = max(settling, pl.contest.StillSettling())
	}
	return conflictGrace + settling
}

func (r *conflictReporter) found(pair claimPair) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.since[pair] = time.Now()
	r.queue.AddAfter(pair, conflictGrace)
}

func (r *conflictReporter) foundAt(pair claimPair) time.Time {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.since[pair]
}

// done forgets a conflict, unless it was found again since then.
func (r *conflictReporter) done(pair claimPair, since time.Time) {
	delete(r.reported, pair)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.since[pair].Equal(since) {
		delete(r.since, pair)
	}
}

func (r *conflictReporter) run(ctx context.Context) {
	for {
		pair, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		since := r.foundAt(pair)
		if again := r.handle(ctx, pair, since); again > 0 {
			r.queue.AddAfter(pair, again)
		} else {
			r.done(pair, since)
		}
		r.queue.Done(pair)
	}
}

// handle reports the conflict if it has lasted, once, and evicts whom it has to. It
// returns when to look at it again, 0 if that is not necessary.
func (r *conflictReporter) handle(ctx context.Context, pair claimPair, since time.Time) (again time.Duration) {
	for _, conflict := range r.pl.state.Order.Conflicts(pair.later) {
		if pairOf(conflict) != pair {
			continue
		}
		if conflict.Relation == claimlog.Later && r.foundFromOther(pair) {
			return 0 // The other claim has been allocated anew, which was found as well.
		}
		if !r.reported[pair].Equal(since) {
			if left := r.pl.state.grace() - time.Since(since); left > 0 {
				return left
			}
			if r.pl.state.Leads() != nil {
				return conflictGrace // That is the leader's; this may be the next one.
			}
			r.reported[pair] = since
			r.report(ctx, conflict)
		}
		if r.pl.args.OnConflict == EvictOnConflict && r.evictLater(ctx, conflict) {
			return conflictGrace
		}
		return 0
	}
	return 0
}

// foundFromOther reports whether a conflict of the two claims was found with the other one as
// the later one.
func (r *conflictReporter) foundFromOther(pair claimPair) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for known := range r.since {
		if known.later == pair.other && known.other == pair.later && known.cause == pair.cause && known.pool == pair.pool {
			return true
		}
	}
	return false
}

// report tells about a conflict.
func (r *conflictReporter) report(ctx context.Context, c claimlog.Conflict) {
	metrics.conflict(c.Pool)
	message := "Two claims hold the same: " + c.String()
	klog.FromContext(ctx).Error(nil, message, "driver", c.Pool.Driver, "pool", c.Pool.Name, "device", c.Device)
	r.pl.tellOfConflict(c.Claim.ClaimRef, message)
	r.pl.tellOfConflict(c.Other.ClaimRef, message)
}

// tellOfConflict writes events for a claim, and for the pods that use it.
func (pl *Quartermaster) tellOfConflict(ref ledger.ClaimRef, message string) {
	claim := pl.claim(ref.Namespace, ref.Name)
	if claim == nil || claim.UID != ref.UID {
		return
	}
	pl.handle.EventRecorder().Eventf(claim, nil, v1.EventTypeWarning, conflictReason, "Allocating", "%s", message)
	for _, pod := range pl.consumers(claim) {
		pl.handle.EventRecorder().Eventf(pod, claim, v1.EventTypeWarning, conflictReason, "Allocating", "%s", message)
	}
}

// conflictReason is the reason of the events.
const conflictReason = "DeviceConflict"

// consumers returns the pods for which a claim is reserved, as far as they are known.
func (pl *Quartermaster) consumers(claim *resourceapi.ResourceClaim) []*v1.Pod {
	var pods []*v1.Pod
	for _, consumer := range claim.Status.ReservedFor {
		if podgroup.Is(consumer) {
			pods = append(pods, pl.members(claim, consumer.Name)...)
			continue
		}
		pod := informer.Object[v1.Pod](pl.pods, claim.Namespace+"/"+consumer.Name)
		if consumer.Resource == "pods" && consumer.APIGroup == "" && pod != nil && pod.UID == consumer.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// evictLater evicts the pods of the claim that was allocated later, or, if nobody knows
// which one that is, of the one that the watch delivered last. It returns whether a pod
// has changed meanwhile, so that it has to be looked at again.
func (r *conflictReporter) evictLater(ctx context.Context, c claimlog.Conflict) (again bool) {
	later := c.Claim
	if c.Relation == claimlog.Later {
		later = c.Other
	}
	return r.pl.evictUsers(ctx, later.ClaimRef, c.Pool)
}
