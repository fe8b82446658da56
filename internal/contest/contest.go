package contest

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/internal/contenders"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Contest knows, for one profile of the scheduler, what non-participating schedulers may be about to
// allocate. It is safe for concurrent use.
type Contest struct {
	// Contenders are the pods of other schedulers, see Follow.
	Contenders *contenders.Registry
	// Order says who has allocated what, and what is announced.
	Order *claimlog.Order
	// Cluster has the rest.
	Cluster Cluster
	// SettleTime is how long a scheduler may take to show what it has decided (settleTime). With 0,
	// nobody settles.
	SettleTime func() time.Duration
	// Cost returns how long it took to look at everything, from when that began; nil stands for
	// time.Since.
	Cost func(begin time.Time) time.Duration

	mutex  sync.Mutex
	latest *view // nil: nobody has looked yet

	keys keys
}

// Cluster is what is known of claims, devices and the pods that want them. All of it is in memory.
type Cluster interface {
	// Claim returns the latest known state of a claim, nil if there is none of that name.
	Claim(namespace, name string) *resourceapi.ResourceClaim
	// ClaimsOf returns the claims of a pod. It fails if one of them is missing or cannot be used.
	ClaimsOf(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error)
	// ClaimToMake returns what a scheduler is going to make for the pod's extended resources, with
	// the UID of the pod and without a name; nil if there is nothing to make.
	ClaimToMake(pod *v1.Pod) *resourceapi.ResourceClaim
	// Prepare returns what it takes to find devices for a claim.
	Prepare(claim *resourceapi.ResourceClaim) *allocator.Task
	// CouldUse reports whether a task could use any device of the pools, at the best of times. A
	// pool without names stands for all its devices.
	CouldUse(task *allocator.Task, pools map[inventory.PoolID][]string) bool
}

// competition is whether others are about to allocate something. Nothing is set if their pods
// were bound a moment ago, or were rejected, so that it takes an event that helps them, or if
// nobody has looked after them for some time.
type competition struct {
	// decided is since when the first of their claims is waited for of which it is known that
	// its scheduler has decided; zero if there is none.
	decided time.Time
	// active is since when the first of their claims is waited for by a scheduler that is
	// known to run; zero if there is none.
	active time.Time
	// young is the same for pods that are new, whose scheduler has not shown itself yet.
	young time.Time
}

func (c *competition) add(other competition) {
	c.decided, c.active, c.young = earlier(c.decided, other.decided), earlier(c.active, other.active), earlier(c.young, other.young)
}

// Youth is how long it takes a scheduler at most to show that it looks after a pod.
const Youth = 10 * time.Second

// competitionOf returns what a pod's scheduler is about to do.
func competitionOf(pod contenders.Contender, now time.Time) competition {
	waits := now.Sub(pod.Since)
	switch {
	case pod.Bound || pod.Rejected || now.Sub(pod.Heard) > contenders.Memory:
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

// competitionIn reports whether claims of others in the namespace could use devices of the given
// pools, as CouldUse takes them: whether there are any, now or a moment ago, and what they are about
// to do.
func (c *Contest) competitionIn(namespace string, pools map[inventory.PoolID][]string, maxAge time.Duration) (some bool, all competition) {
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

// competitionElsewhere does the same for all other namespaces, but looks only at classes: what else
// somebody asks for there may take long to look at.
func (c *Contest) competitionElsewhere(namespace string, pools map[inventory.PoolID][]string, maxAge time.Duration) (some bool, all competition) {
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

// couldUse reports whether a claim could use any device of the pools, or nobody knows.
func (c *Contest) couldUse(claim *resourceapi.ResourceClaim, pools map[inventory.PoolID][]string) bool {
	task := c.Cluster.Prepare(claim)
	return task.Err() != nil || c.Cluster.CouldUse(task, pools)
}

// active reports whether anything is about to be allocated by others.
func (c *Contest) active() bool {
	for namespace, crowd := range c.view(pollAge).crowds {
		if crowd.isActive() || len(c.Order.Announced(namespace)) > 0 {
			return true
		}
	}
	return false
}

// earlier returns the earlier one of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
