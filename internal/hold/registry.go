package hold

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Registry has the present holds, and the pods that wait. It is safe for concurrent use.
type Registry struct {
	mutex sync.Mutex
	// waiting are the pods without a node that are known not to fit.
	waiting map[types.UID]*v1.Pod
	// left are the pods that do not wait any more, whose conditions say that devices are held. planned is set once there was a plan.
	left    map[types.UID]*v1.Pod
	planned bool
	// holds are in the order of the plan.
	holds []*Hold
	// ready holds since when all devices of a holder's pod have been free, and idle until when a pod that did not take them
	// holds nothing.
	ready, idle map[types.UID]time.Time
	// history holds how long the pods of Jobs usually run.
	history history
	// unplanned holds since when a holder could not be planned, by its first pod.
	unplanned map[types.UID]time.Time
	// told holds when a holder's hold was last reported, by its first pod.
	told map[types.UID]time.Time
}

// NewRegistry returns a Registry without holds.
func NewRegistry() *Registry {
	return &Registry{
		waiting: make(map[types.UID]*v1.Pod), ready: make(map[types.UID]time.Time), idle: make(map[types.UID]time.Time),
		told: make(map[types.UID]time.Time), history: make(history), left: make(map[types.UID]*v1.Pod),
		unplanned: make(map[types.UID]time.Time),
	}
}

// readyFor is the time for which a hold lasts once all its devices are free: if the pod does not take them, something else than
// devices keeps it from running. Nothing is held for it for idleFor after that.
const (
	readyFor = 3 * time.Minute
	idleFor  = 10 * time.Minute
)

// tellAfter is the time between two reports about the hold of one holder, which may move with each plan.
const tellAfter = 5 * time.Minute

// PodChanged handles an event about a pod: before and after are the API server's versions, nil if there was none. A hold for
// the pod ends if the pod gets a node, ends or is gone. It returns the devices that were kept.
func (r *Registry) PodChanged(before, after *v1.Pod) ledger.Freed {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.history.note(before, after)
	var freed ledger.Freed
	if before != nil && (after == nil || after.UID != before.UID) {
		freed = r.end(before)
	}
	if after == nil {
		return freed
	}
	if after.Spec.NodeName != "" || after.DeletionTimestamp != nil || podutil.IsPodTerminal(after) {
		freed = freed.And(r.end(after))
		if dra.HeldFor(after) != nil {
			r.left[after.UID] = after
		}
		return freed
	}
	if _, waits := WaitsSince(after); waits {
		r.waiting[after.UID] = after
	}
	return freed
}

// end forgets a pod that does not wait any more. The caller must hold the mutex.
func (r *Registry) end(pod *v1.Pod) (freed ledger.Freed) {
	delete(r.waiting, pod.UID)
	delete(r.left, pod.UID)
	delete(r.ready, pod.UID)
	delete(r.idle, pod.UID)
	delete(r.told, pod.UID)
	delete(r.unplanned, pod.UID)
	for i, h := range r.holds {
		uses, has := h.Uses[pod.UID]
		if !has {
			continue
		}
		if pod.Spec.NodeName != "" && pod.Spec.NodeName == h.Nodes[pod.UID] {
			waitsEnded.Inc()
		}
		left := *h // Others may read the hold.
		left.before = h
		left.Uses = maps.Clone(h.Uses)
		delete(left.Uses, pod.UID)
		r.holds = slices.Clone(r.holds)
		r.holds[i] = &left
		if len(left.Uses) == 0 {
			r.holds = slices.Delete(r.holds, i, i+1)
		}
		return ledger.DevicesOf(uses...)
	}
	return nil
}

// EndOf returns the expected end of a pod on a node, or of one that is about to be bound, also by how long other pods of its Job have run.
func (r *Registry) EndOf(pod *v1.Pod, now time.Time) End {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return endOf(pod, r.history.usual(pod), now)
}

// Waiting returns the pods that wait, oldest first, without those that did not take what was held for them. A plan is made every second:
// in another order, it could be another plan.
func (r *Registry) Waiting(now time.Time) (pods []*v1.Pod) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for uid, pod := range r.waiting {
		if !now.Before(r.idle[uid]) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, podutil.Older)
	return pods
}

// Replace sets the holds of a new plan, which has those that stay in it as they are. It returns the devices that are not held any
// more, and the holds to report. A hold whose devices have been free for readyFor ends.
func (r *Registry) Replace(holds []*Hold, now time.Time) (freed ledger.Freed, news []*Hold) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before := r.holds
	r.holds, r.planned = nil, true
	for _, h := range holds {
		// Of a hold that stays, pods may have ended while the plan was made. Its time does not run out during an attempt.
		same := slices.IndexFunc(before, func(other *Hold) bool { return other.isOf(h) })
		switch {
		case same >= 0:
			r.holds = append(r.holds, before[same])
		case h.Booking != nil, r.isOpen(h) && r.mayStay(h, now):
			r.holds = append(r.holds, h)
			delete(r.unplanned, h.firstHeld())
		}
	}
	for _, h := range r.holds {
		if r.isNews(h, before, now) {
			news = append(news, h)
		}
	}
	return freedBy(before, r.holds, now), news
}

// freedBy returns the devices that a holder had before and does not have after: others may have them, also if they are held for another holder
// then. It has all devices of a hold that fewer must leave alone than before.
func freedBy(before, after []*Hold, now time.Time) (freed ledger.Freed) {
	for _, h := range before {
		kept := make(map[device]bool)
		if i := slices.IndexFunc(after, func(other *Hold) bool { return h.closesAsMuch(other, now) }); i >= 0 {
			if after[i] == h {
				continue
			}
			for id, names := range after[i].devicesHeld() {
				for _, name := range names {
					kept[device{id, name}] = true
				}
			}
		}
		for id, names := range h.devicesHeld() {
			if names = slices.DeleteFunc(names, func(name string) bool { return kept[device{id, name}] }); len(names) > 0 {
				freed = freed.And(ledger.Freed{id: names})
			}
		}
	}
	return freed
}

// opensBy is the time by which the begin of a hold must move for pods to be woken that may fit before it now: it moves a little with each plan.
const opensBy = time.Minute

// closesAsMuch reports whether another hold is for the same holder, and nobody may use its devices who must leave those of this one alone. A
// begin in the past is now: the devices are free.
func (h *Hold) closesAsMuch(after *Hold, now time.Time) bool {
	if h.Booking != nil {
		return after.Booking.isAs(h.Booking) && after.Priority == h.Priority
	}
	begin := h.Begin
	if begin.Before(now) && !begin.IsZero() {
		begin = now
	}
	opens := !after.Begin.IsZero() && (begin.IsZero() || after.Begin.Sub(begin) > opensBy)
	return after.Booking == nil && after.Name == h.Name && after.Group == h.Group && after.Priority == h.Priority && after.Evicts == h.Evicts && !opens
}

// isNews reports whether a hold is to be reported, and remembers that it is. A new one is, and one that has moved.
// Within tellAfter, only the condition of the pod says that it has moved. The status of a booking says where it is. The caller must hold the mutex.
func (r *Registry) isNews(h *Hold, before []*Hold, now time.Time) bool {
	if h.Booking != nil {
		return false
	}
	stayed := slices.ContainsFunc(before, func(other *Hold) bool { return other.Name == h.Name && maps.Equal(other.Nodes, h.Nodes) })
	first := h.firstHeld()
	if last, told := r.told[first]; stayed || told && now.Sub(last) < tellAfter {
		return false
	}
	r.told[first] = now
	return true
}

// LongestUnplanned limits the time for which holds stay although their holders cannot be planned, because an informer is late or an expression
// is still being evaluated.
const LongestUnplanned = 5 * time.Second

// Unplanned notes that the holder of a present hold waits and cannot be planned. It reports whether the hold stays for now.
func (r *Registry) Unplanned(h *Hold, now time.Time) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	first := h.firstHeld()
	if _, was := r.unplanned[first]; !was {
		r.unplanned[first] = now
	}
	return now.Sub(r.unplanned[first]) < LongestUnplanned
}

// isOpen reports whether all pods of a hold still wait: a pod may have got its node while the plan was made. The caller must hold
// the mutex.
func (r *Registry) isOpen(h *Hold) bool {
	return !slices.ContainsFunc(h.Pods, func(pod *Pod) bool { return r.waiting[pod.UID] == nil })
}

// mayStay keeps track of how long the devices of a hold have been free. The caller must hold the mutex.
func (r *Registry) mayStay(h *Hold, now time.Time) bool {
	first := h.firstHeld()
	since, was := r.ready[first]
	switch {
	case !h.Ready:
		delete(r.ready, first)
	case !was:
		r.ready[first] = now
	case now.Sub(since) >= readyFor:
		delete(r.ready, first)
		for _, pod := range h.Pods {
			r.idle[pod.UID] = now.Add(idleFor)
		}
		return false
	}
	return true
}

// Holds returns the present holds, which must not be modified.
func (r *Registry) Holds() []*Hold {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.holds
}

// Against returns the holds that a pod must leave alone; see Hold.Binds.
func (r *Registry) Against(pod *v1.Pod, group string, priority int32, now time.Time) (against []*Hold) {
	for _, h := range r.Holds() {
		if h.Binds(pod, group, priority, now) {
			against = append(against, h)
		}
	}
	return against
}
