package quartermaster

import (
	"encoding/json"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/contenders"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
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
	// youth is how long it takes a scheduler at most to show that it looks after a pod.
	youth = 10 * time.Second
)

// contest knows what non-participating schedulers may be
// about to allocate: to pods of theirs that wait for devices, and what they have announced.
type contest struct {
	pl *Quartermaster

	mutex  sync.Mutex
	latest *contestView // nil: nobody has looked yet
	// keys are what keyOf has made of claims, those of the latest view only.
	keys map[types.UID]string
}

// contestView is the contest at some moment. It does not change any more.
type contestView struct {
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

func (r *competition) add(other competition) {
	r.decided, r.active, r.young = earlier(r.decided, other.decided), earlier(r.active, other.active), earlier(r.young, other.young)
}

// compete gives a profile its view of the contest. The first one makes the registry of other
// schedulers' pods for all.
func (s *shared) compete(pl *Quartermaster) error {
	pl.contest = &contest{pl: pl}
	s.profilesMutex.Lock()
	defer s.profilesMutex.Unlock()
	first := s.contenders == nil
	if first {
		s.contenders = contenders.New(clock.RealClock{}, pl.needsDevices)
	}
	s.contenders.Own(pl.handle.ProfileName())
	if !first {
		return nil
	}
	factory := pl.handle.SharedInformerFactory()
	if err := s.followContenders(factory.Core().V1().Pods().Informer()); err != nil {
		return err
	}
	return s.followTheirClaims(factory.Resource().V1().ResourceClaims().Informer(), pl.podsUsing)
}

// followContenders has the registry told about pods.
func (s *shared) followContenders(pods cache.SharedIndexInformer) error {
	registration, err := pods.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if pod, ok := obj.(*v1.Pod); ok {
				s.contenders.Add(pod, initial)
			}
		},
		UpdateFunc: func(before, after any) {
			old, pod := informer.Versions[v1.Pod](before, after)
			if old != nil && pod != nil && old.UID != pod.UID {
				s.contenders.Delete(old.UID)
			}
			if old != nil && pod != nil {
				s.contenders.Update(old, pod)
			}
		},
		DeleteFunc: func(obj any) {
			if pod, _ := informer.Versions[v1.Pod](obj, nil); pod != nil {
				s.contenders.Delete(pod.UID)
			}
		},
	})
	s.SyncWith(registration)
	return err
}

// followTheirClaims has the registry told of claims that come to be allocated, after the pods
// that use them perhaps.
func (s *shared) followTheirClaims(claims cache.SharedIndexInformer, podsUsing func(namespace, claim string) ([]*v1.Pod, error)) error {
	opened := func(before, after any) {
		old, claim := informer.Versions[resourceapi.ResourceClaim](before, after)
		if claim == nil || old != nil && old.UID == claim.UID && (old.Status.Allocation == nil || claim.Status.Allocation != nil) {
			return
		}
		if pods, err := podsUsing(claim.Namespace, claim.Name); err == nil { // The index exists.
			for _, pod := range pods {
				s.contenders.ClaimMade(pod.UID)
			}
		}
	}
	registration, err := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { opened(nil, obj) },
		UpdateFunc: opened,
	})
	s.SyncWith(registration)
	return err
}

// competitionFor reports whether claims of others could use devices of the given pools, as CouldUse
// takes them: whether there are any, now or a moment ago, and what they are about to do.
func (c *contest) competitionFor(pools map[inventory.PoolID][]string, maxAge time.Duration) (some bool, all competition) {
	for _, contested := range c.view(maxAge).contested {
		if contested.task == nil || c.pl.events.CouldUse(contested.task, pools) {
			some = true
			all.add(contested.competition)
		}
	}
	return some, all
}

// active reports whether anything is about to be allocated by others.
func (c *contest) active() bool {
	for _, contested := range c.view(pollAge).contested {
		if !contested.active.IsZero() || !contested.decided.IsZero() {
			return true
		}
	}
	return false
}

// view returns how things are, or were no longer ago than maxAge. It may also have what was
// so a settle time ago at most, but it lacks nothing that there is (but for classes that have changed): whoever misses a contender
// hands out a device twice, and whoever sees one that is gone waits for nothing.
func (c *contest) view(maxAge time.Duration) *contestView {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case c.latest == nil || time.Since(c.latest.taken) >= max(maxAge, c.latest.lasts(c.pl.args.SettleTime.Duration)):
		c.latest = c.look()
	case time.Since(c.latest.added) >= maxAge:
		c.latest = c.lookAgain(c.latest)
	}
	return c.latest
}

// lasts returns for how long a view is good enough if what came since is added.
func (v *contestView) lasts(longest time.Duration) time.Duration {
	if v.cost <= cheapView {
		return 0
	}
	return min(viewShare*v.cost, longest)
}

// look looks at everything. It needs the mutex.
func (c *contest) look() *contestView {
	view := &contestView{taken: time.Now(), contested: make(map[string]contested)}
	before := c.keys
	c.keys = make(map[types.UID]string)
	c.fill(view, before)
	view.cost = time.Since(view.taken)
	return view
}

// lookAgain adds what came since. It needs the mutex.
func (c *contest) lookAgain(at *contestView) *contestView {
	view := *at
	view.contested = maps.Clone(at.contested)
	c.fill(&view, c.keys)
	return &view
}

// fill adds the contenders that are not in a view, and what is announced. known are the keys
// of claims.
func (c *contest) fill(view *contestView, known map[types.UID]string) {
	view.added = time.Now()
	since, changed := view.version, false
	var pods []contenders.Contender
	pods, view.version = c.pl.state.contenders.List(since)
	for _, contender := range pods {
		changed = c.learn(contender.Pod) || changed
	}
	if changed {
		pods, view.version = c.pl.state.contenders.List(since)
	}
	for _, contender := range pods {
		if contender.TakesPart {
			continue
		}
		for _, claim := range c.claimsOf(contender) {
			c.add(view, claim, known[claim.UID], competitionOf(contender, view.added))
		}
	}
	for _, announced := range c.pl.state.Order.Announced() {
		claim := c.pl.claim(announced.Namespace, announced.Name)
		c.add(view, claim, known[announced.UID], competition{active: announced.Since})
	}
}

// competitionOf returns what a pod's scheduler is about to do.
func competitionOf(pod contenders.Contender, now time.Time) competition {
	waits := now.Sub(pod.Since)
	switch {
	case pod.Bound || pod.Rejected || now.Sub(pod.Heard) > contenders.Memory:
		return competition{}
	case pod.Decided:
		return competition{decided: pod.Since}
	case pod.Served:
		return competition{active: pod.Since}
	case waits <= youth:
		return competition{young: pod.Since}
	default:
		return competition{}
	}
}

// add adds a claim to a view. key is what is known of it from before, "" if nothing is; a
// claim that is nil could use any device.
func (c *contest) add(view *contestView, claim *resourceapi.ResourceClaim, key string, what competition) {
	if claim != nil {
		if key == "" {
			key = keyOf(claim)
			if c.pl.resolver != nil { // Parameters are looked up in the claim's namespace (v1alpha2).
				key = claim.Namespace + "/" + key
			}
		}
		if claim.Name != "" { // What stands for extended resources depends on classes.
			c.keys[claim.UID] = key
		}
	}
	entry, found := view.contested[key]
	if !found && len(view.contested) >= maxContested {
		key = ""
		entry, found = view.contested[key]
	}
	if !found && key != "" {
		entry.task = c.pl.solver.Prepare([]*resourceapi.ResourceClaim{claim})
		if entry.task.Err() != nil {
			entry.task = nil // The other scheduler may know more of classes by now.
		}
	}
	entry.add(what)
	view.contested[key] = entry
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
func (c *contest) claimsOf(contender contenders.Contender) []*resourceapi.ResourceClaim {
	claims, err := c.pl.claimsOf(contender.Pod)
	if err != nil {
		return nil
	}
	var open []*resourceapi.ResourceClaim
	for _, claim := range claims {
		// The informer may know before our watch does. What counts is who will be found there.
		if _, allocated := c.pl.state.Order.AllocatedBy(claim.UID); contender.Bound || !allocated {
			open = append(open, claim)
		}
	}
	if served := extendedresource.Served(c.pl.extendedResources(contender.Pod)); len(served) > 0 {
		// The scheduler makes a claim when it has decided.
		open = append(open, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: contender.Pod.Namespace, UID: contender.Pod.UID},
			Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: extendedresource.RequestsFor(contender.Pod, served).Devices}},
		})
	}
	return open
}

// learn finds out from a pod whether its scheduler takes part in the protocol: by who has
// allocated a claim that is reserved for this pod alone. That it does is believed only of a
// claim that was made for the pod and was seen to be allocated: before that, another scheduler
// may have had its name. It reports whether that changes who contends.
func (c *contest) learn(pod *v1.Pod) (changed bool) {
	for _, name := range claimNames(pod) {
		claim := c.pl.claim(pod.Namespace, name)
		if claim == nil || len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != pod.UID {
			continue
		}
		order := c.pl.state.Order
		switch ours, known := order.AllocatedBy(claim.UID); {
		case known && !ours:
			changed = c.pl.state.contenders.Learn(pod.Spec.SchedulerName, false) || changed
		case order.AllocatedByOursSince(claim.UID) && metav1.IsControlledBy(claim, pod):
			changed = c.pl.state.contenders.Learn(pod.Spec.SchedulerName, true) || changed
		}
	}
	return changed
}

// claimNames are the claims of a pod that are known by name.
func claimNames(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil {
			names = append(names, *status.ResourceClaimName)
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	return names
}

// earlier returns the earlier one of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// needsDevices reports whether a pod may have devices: it has claims, or resources that a
// class may stand for.
func (pl *Quartermaster) needsDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || len(pl.extendedResources(pod)) > 0
}
