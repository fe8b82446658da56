package contest

import (
	"encoding/json"
	"maps"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/contenders"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

const (
	// pollAge is how old a view of the contest may be for those who wait; whoever has just
	// begun wants a new one. If views take longer than cheapView to make, what an earlier one
	// has seen is used for viewShare times as long, at most for a settle time, and only what
	// came since is looked at.
	pollAge   = 10 * time.Millisecond
	cheapView = time.Millisecond
	viewShare = 10
	// maxContested is how many different claims of others are looked at. If there are more,
	// they count as such that could use any device.
	maxContested = 100
)

// view is the contest at some moment. It does not change any more.
type view struct {
	// taken is when everything was looked at, which took the cost; added is when what came
	// since was, at the same time at the earliest.
	taken, added time.Time
	cost         time.Duration
	// version is that of the contenders which are in the view.
	version uint64
	// contested are by what they ask for; under "" is what could use any device.
	contested map[string]contested
}

// contested is what some claims of others, which all ask for the same, compete for.
type contested struct {
	task *allocator.Task // nil: any device
	competition
}

// Look has everything looked at that has changed, as whoever settles does himself. What pods tell of
// their schedulers is learned by that.
func (c *Contest) Look() { c.view(0) }

// view returns how things are, or were no longer ago than maxAge. It may also have what was so a
// settle time ago at most, but it lacks nothing that there is (but for classes that have changed):
// whoever misses a contender hands out a device twice, and whoever sees one that is gone waits for
// nothing.
func (c *Contest) view(maxAge time.Duration) *view {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case c.latest == nil || time.Since(c.latest.taken) >= max(maxAge, c.latest.lasts(c.SettleTime())):
		c.latest = c.look()
	case time.Since(c.latest.added) >= maxAge:
		c.latest = c.lookAgain(c.latest)
	}
	return c.latest
}

// lasts returns for how long a view is good enough if what came since is added.
func (v *view) lasts(longest time.Duration) time.Duration {
	if v.cost <= cheapView {
		return 0
	}
	return min(viewShare*v.cost, longest)
}

// look looks at everything. It needs the mutex.
func (c *Contest) look() *view {
	v := &view{taken: time.Now(), contested: make(map[string]contested)}
	before := c.keys
	c.keys = make(map[types.UID]string)
	c.fill(v, before)
	cost := c.Cost
	if cost == nil {
		cost = time.Since
	}
	v.cost = cost(v.taken)
	return v
}

// lookAgain adds what came since. It needs the mutex.
func (c *Contest) lookAgain(at *view) *view {
	v := *at
	v.contested = maps.Clone(at.contested)
	c.fill(&v, c.keys)
	return &v
}

// fill adds the contenders that are not in a view, and what is announced. known are the keys
// of claims.
func (c *Contest) fill(v *view, known map[types.UID]string) {
	v.added = time.Now()
	since, changed := v.version, false
	var pods []contenders.Contender
	pods, v.version = c.Contenders.List(since)
	for _, contender := range pods {
		changed = c.learn(contender.Pod) || changed
	}
	if changed {
		pods, v.version = c.Contenders.List(since)
	}
	for _, contender := range pods {
		if contender.TakesPart {
			continue
		}
		for _, claim := range c.claimsOf(contender) {
			c.add(v, claim, known[claim.UID], competitionOf(contender, v.added))
		}
	}
	for _, announced := range c.Order.Announced() {
		claim := c.Cluster.Claim(announced.Namespace, announced.Name)
		c.add(v, claim, known[announced.UID], competition{active: announced.Since})
	}
}

// add adds a claim to a view. key is what is known of it from before, "" if nothing is; a
// claim that is nil could use any device.
func (c *Contest) add(v *view, claim *resourceapi.ResourceClaim, key string, what competition) {
	if claim != nil {
		if key == "" {
			key = keyOf(claim)
			if c.Cluster.AloneInNamespace() {
				key = claim.Namespace + "/" + key
			}
		}
		if claim.Name != "" { // What stands for extended resources depends on classes.
			c.keys[claim.UID] = key
		}
	}
	entry, found := v.contested[key]
	if !found && len(v.contested) >= maxContested {
		key = ""
		entry, found = v.contested[key]
	}
	if !found && key != "" {
		entry.task = c.Cluster.Prepare(claim)
		if entry.task.Err() != nil {
			entry.task = nil // The other scheduler may know more of classes by now.
		}
	}
	entry.add(what)
	v.contested[key] = entry
}

// keyOf is the same for claims that ask for the same.
func keyOf(claim *resourceapi.ResourceClaim) string {
	text, err := json.Marshal(claim.Spec.Devices)
	if err != nil {
		return ""
	}
	return string(text)
}

// claimsOf returns the claims of a pod for which devices are to be found, or were found a
// moment ago if it is bound. A pod whose claims do not exist yet has none: no scheduler
// tries it before.
func (c *Contest) claimsOf(contender contenders.Contender) []*resourceapi.ResourceClaim {
	claims, err := c.Cluster.ClaimsOf(contender.Pod)
	if err != nil {
		return nil
	}
	var open []*resourceapi.ResourceClaim
	for _, claim := range claims {
		// The informer may know before our watch does. What counts is who will be found there.
		if _, allocated := c.Order.AllocatedBy(claim.UID); contender.Bound || !allocated {
			open = append(open, claim)
		}
	}
	if claim := c.Cluster.ClaimToMake(contender.Pod); claim != nil {
		open = append(open, claim) // The scheduler makes it when it has decided.
	}
	return open
}
