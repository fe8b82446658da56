package foreign

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// crowd holds the pods of other schedulers in a namespace. It determines what they want on demand, and
// only once. It does not change any more when it is in a view. A nil crowd has no pods.
type crowd struct {
	namespace string
	// before holds the pods of an earlier view, which count as well; nil if there are none. since is
	// the version of the competitors up to which they are.
	before *crowd
	since  uint64
	// some are pods that came since, and more is set if there are further ones.
	some []Competitor
	more bool
	// taken is the time when the pods were looked at, and cost is the cost of the view.
	taken time.Time
	cost  *atomic.Int64

	forOwn, forOthers sync.Once
	// byKey holds the competition by the key of the claims, under "" for claims that could use any
	// device. byClass holds it by device class.
	byKey   map[string]contested
	byClass map[string]competition
}

// contested is the competition from claims of other schedulers that ask for the same devices.
type contested struct {
	task *allocator.Task // nil: any device
	competition
}

// newCrowd returns the pods of a namespace for a view that is being made.
func (c *Watch) newCrowd(namespace string, before *crowd, since uint64, v *view) *crowd {
	added := &crowd{namespace: namespace, before: before, since: since, taken: v.added, cost: v.cost}
	added.some, added.more = c.competitorsIn(namespace, since, maxContested)
	return added
}

// competitorsIn lists the competitors whose schedulers do not take part in the protocol.
func (c *Watch) competitorsIn(namespace string, since uint64, limit int) (list []Competitor, more bool) {
	list, more = c.Competitors.List(namespace, since, limit)
	return slices.DeleteFunc(list, func(competitor Competitor) bool { return competitor.TakesPart }), more
}

// isActive reports whether a scheduler is about to allocate devices to any of the pods.
func (w *crowd) isActive() bool {
	return w != nil && (w.before.isActive() || slices.ContainsFunc(w.some, func(competitor Competitor) bool {
		what := competitionOf(competitor, w.taken)
		return !what.active.IsZero() || !what.decided.IsZero()
	}))
}

// contested returns the competition from the pods, as seen from their own namespace.
func (w *crowd) contested(c *Watch) map[string]contested {
	if w == nil {
		return nil
	}
	w.forOwn.Do(func() {
		before := w.before.contested(c)
		defer w.spent(time.Now())
		w.byKey = maps.Clone(before)
		if w.byKey == nil {
			w.byKey = make(map[string]contested)
		}
		pods := w.some
		if w.more {
			pods, _ = c.competitorsIn(w.namespace, w.since, 0)
		}
		for _, competitor := range pods {
			for _, claim := range c.claimsOf(competitor) {
				c.enter(w.byKey, claim, competitionOf(competitor, w.taken))
			}
		}
	})
	return w.byKey
}

// enter adds a claim to the competition. A nil claim could use any device.
func (c *Watch) enter(byKey map[string]contested, claim *resourceapi.ResourceClaim, what competition) {
	key := c.keys.of(claim)
	entry, found := byKey[key]
	if !found && len(byKey) >= maxContested {
		key = ""
		entry, found = byKey[key]
	}
	if !found && key != "" {
		entry.task = c.Cluster.Prepare(claim)
		if entry.task.Err() != nil {
			entry.task = nil // The other scheduler may know newer classes by now.
		}
	}
	entry.add(what)
	byKey[key] = entry
}

// classes returns the competition from the pods by device class, as seen from other namespaces. Pods that are
// not looked at are under "", because there are too many pods or classes, and so are claims without requests.
func (w *crowd) classes(c *Watch) map[string]competition {
	if w == nil {
		return nil
	}
	w.forOthers.Do(func() {
		before := w.before.classes(c)
		defer w.spent(time.Now())
		w.byClass = maps.Clone(before)
		if w.byClass == nil {
			w.byClass = make(map[string]competition)
		}
		for _, competitor := range w.some {
			what := competitionOf(competitor, w.taken)
			if w.more || len(w.byClass) >= maxContested {
				w.want("", what)
				continue
			}
			for _, claim := range c.claimsOf(competitor) {
				w.wantAll(claim, what)
			}
		}
	})
	return w.byClass
}

// wantAll adds the classes of a claim. A nil claim could use any device.
func (w *crowd) wantAll(claim *resourceapi.ResourceClaim, what competition) {
	if claim == nil || len(claim.Spec.Devices.Requests) == 0 {
		w.want("", what)
		return
	}
	for request := range dra.Requests(claim) {
		w.want(request.Class, what)
	}
}

func (w *crowd) want(class string, what competition) {
	all := w.byClass[class]
	all.add(what)
	w.byClass[class] = all
}

// spent adds the time since began to the cost of the view.
func (w *crowd) spent(began time.Time) { w.cost.Add(int64(time.Since(began))) }

// anyOf returns a claim for any device of a class.
func anyOf(class string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name:    "any",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}}}}
}

// claimsOf returns the claims of a pod that need devices, or got them a moment ago if the pod is bound.
// A pod whose claims do not exist yet has none: no scheduler tries it before. If the pod shows that they do,
// the informer of claims is late, and there is one nil claim, which could use any device.
func (c *Watch) claimsOf(competitor Competitor) []*resourceapi.ResourceClaim {
	claims, err := c.Cluster.Of(competitor.Pod)
	switch {
	case err == nil:
	case competitor.Decided && !competitor.Bound || c.lacksClaim(competitor.Pod):
		return []*resourceapi.ResourceClaim{nil}
	default:
		return nil
	}
	var open []*resourceapi.ResourceClaim
	for _, claim := range claims {
		// The informer may be ahead of the watch. The watch counts: it shows which scheduler allocated.
		if _, allocated := c.Order.AllocatedBy(claim.UID); competitor.Bound || !allocated {
			open = append(open, claim)
		}
	}
	if claim := c.Cluster.ClaimToMake(competitor.Pod); claim != nil {
		open = append(open, claim) // The scheduler creates it once it has decided.
	}
	return open
}

// lacksClaim reports whether a claim is unknown that was made for the pod from a template.
func (c *Watch) lacksClaim(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(status v1.PodResourceClaimStatus) bool {
		return status.ResourceClaimName != nil && c.Cluster.Claim(pod.Namespace, *status.ResourceClaimName) == nil
	})
}
