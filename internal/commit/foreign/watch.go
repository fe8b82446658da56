package foreign

import (
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Watch tracks, for one profile of the scheduler, what non-participating schedulers may be about to
// allocate. It is safe for concurrent use.
type Watch struct {
	// Competitors are the pods of other schedulers, see PodChanged.
	Competitors *Registry
	// Order knows which scheduler has allocated a claim, and which claims are announced.
	Order *allocationlog.Log
	// Cluster provides everything else.
	Cluster Cluster
	// Cost returns the duration of a full look that began at the given time; nil stands for time.Since.
	Cost func(begin time.Time) time.Duration

	mutex  sync.Mutex
	latest *view // nil before the first look

	keys keys
}

// Cluster is the known state of claims, devices and the pods that want them, all of it in memory.
type Cluster interface {
	// SettleTime returns how long a scheduler may take to show what it has decided (settleTime). With
	// 0, claims do not settle.
	SettleTime() time.Duration
	// Claim returns the latest known state of a claim, nil if there is none of that name.
	Claim(namespace, name string) *resourceapi.ResourceClaim
	// Of returns the claims of a pod. It fails if one of them is missing or cannot be used.
	Of(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error)
	// ClaimToMake returns the claim that a scheduler will create for the pod's extended resources, with
	// the UID of the pod and without a name; nil if there is none to create.
	ClaimToMake(pod *v1.Pod) *resourceapi.ResourceClaim
	// Prepare returns the task of finding devices for a claim.
	Prepare(claim *resourceapi.ResourceClaim) *allocator.Task
	// CouldUse reports whether a task could ever use any device of the pools, even if it is in use now.
	// A pool without names stands for all its devices.
	CouldUse(task *allocator.Task, pools map[inventory.PoolID][]string) bool
}

// competition tells whether other schedulers are about to allocate something, and since when. All
// fields are zero if their pods were bound a moment ago, if their pods were rejected and thus need an
// event that helps them, or if no scheduler has changed the pods for some time.
type competition struct {
	// decided is the earliest start of a wait for a claim whose scheduler is known to have decided;
	// zero if there is none.
	decided time.Time
	// active is the same for claims whose scheduler is known to run.
	active time.Time
	// young is the same for claims of new pods whose scheduler has not shown itself yet.
	young time.Time
}

func (c *competition) add(other competition) {
	c.decided, c.active, c.young = earlier(c.decided, other.decided), earlier(c.active, other.active), earlier(c.young, other.young)
}

// Youth limits how long a scheduler may take to show that it handles a pod.
const Youth = 10 * time.Second

// competitionOf returns what a pod's scheduler is about to do.
func competitionOf(pod Competitor, now time.Time) competition {
	waits := now.Sub(pod.Since)
	switch {
	case pod.Bound || pod.Rejected || now.Sub(pod.Heard) > Memory:
		return competition{}
	case pod.Decided:
		return competition{decided: pod.Since}
	case pod.SchedulerSeen:
		return competition{active: pod.Since}
	case waits <= Youth:
		return competition{young: pod.Since}
	default:
		return competition{}
	}
}

// competitionIn returns the competition from claims of other schedulers in the namespace that could use
// devices of the given pools, see CouldUse. some is set if any of their claims could, now or a moment ago.
func (c *Watch) competitionIn(namespace string, pools map[inventory.PoolID][]string, maxAge time.Duration) (some bool, all competition) {
	v := c.view(maxAge)
	for _, byKey := range []map[string]contested{v.crowds[namespace].contested(c), v.announcedIn(c, namespace)} {
		for _, contested := range byKey {
			if contested.task == nil || c.Cluster.CouldUse(contested.task, pools) {
				some = true
				all.add(contested.competition)
			}
		}
	}
	return some, all
}

// competitionElsewhere does the same for all other namespaces, but considers only the device classes:
// the rest of what claims there ask for may take long to evaluate.
func (c *Watch) competitionElsewhere(namespace string, pools map[inventory.PoolID][]string, maxAge time.Duration) (some bool, all competition) {
	could := make(map[string]bool)
	for in, crowd := range c.view(maxAge).crowds {
		if in == namespace {
			continue
		}
		for class, what := range crowd.classes(c) {
			able, known := could[class]
			if !known {
				able = class == "" || c.couldUse(anyOf(class), pools)
				could[class] = able
			}
			if able {
				some = true
				all.add(what)
			}
		}
	}
	return some, all
}

// couldUse reports whether a claim could use any device of the pools. It returns true if that is unknown.
func (c *Watch) couldUse(claim *resourceapi.ResourceClaim, pools map[inventory.PoolID][]string) bool {
	task := c.Cluster.Prepare(claim)
	return task.Err() != nil || c.Cluster.CouldUse(task, pools)
}

// active reports whether other schedulers are about to allocate anything.
func (c *Watch) active() bool {
	for namespace, crowd := range c.view(pollAge).crowds {
		if crowd.isActive() || len(c.Order.Announced(namespace)) > 0 {
			return true
		}
	}
	return false
}

// opened returns whether the watches of waiting pods and of claims are both open, and when one was last opened again; zero if
// none ever was.
func (c *Watch) opened() (both bool, last time.Time) {
	noPods, pods := c.Competitors.Interrupted()
	noClaims, claims := c.Order.Interrupted()
	if claims.After(pods) {
		return !noPods && !noClaims, claims
	}
	return !noPods && !noClaims, pods
}

// openFor returns for how long both watches have been open, 0 if one is closed.
func (c *Watch) openFor() time.Duration {
	both, last := c.opened()
	if !both {
		return 0
	}
	return time.Since(last)
}

// isBlind reports whether something about other schedulers may be missing, because a watch is closed, or was closed within
// the settle time.
func (c *Watch) isBlind() bool {
	return c.openFor() < c.Cluster.SettleTime() &&
		(c.Competitors.OthersSeen() || c.Order.ForeignWithin(math.MaxInt64))
}

// earlier returns the earlier of two times, ignoring a time that is zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// PodChanged handles an event about a pod. If a pod that existed at the start is bound, it only shows that its scheduler has
// run. The change of a pod that was bound before the Registry knew it does not make the pod count.
func (r *Registry) PodChanged(e informer.Event[v1.Pod]) {
	switch {
	case e.After == nil:
		r.Delete(e.Before.UID)
	case e.Before == nil:
		r.Add(e.After, e.Initial)
	default:
		r.Update(e.Before, e.After)
	}
}

// ClaimChanged handles an event about a claim, which may need devices now. It may come after those of the pods that use
// the claim; podsUsing returns those that are known.
func (r *Registry) ClaimChanged(e informer.Event[resourceapi.ResourceClaim], podsUsing func(namespace, claim string) ([]*v1.Pod, error)) {
	if e.After == nil || e.Before != nil && (e.Before.Status.Allocation == nil || e.After.Status.Allocation != nil) {
		return
	}
	if pods, err := podsUsing(e.After.Namespace, e.After.Name); err == nil { // The index exists.
		for _, pod := range pods {
			r.ClaimMade(pod.UID)
		}
	}
}
