package contenders

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

const (
	// Memory is for how long a pod counts that was bound, and one for which nobody seems to
	// be responsible.
	Memory = time.Minute
	// distrust is for how long a scheduler does not take part after it was seen not to,
	// whatever is learned meanwhile: it may have been exchanged for one of ours, or somebody
	// may have had ours allocate a claim of its pods.
	distrust = 10 * time.Minute
)

// Contender is a pod of another scheduler.
type Contender struct {
	Pod *v1.Pod
	// Since is when it was first seen to wait.
	Since time.Time
	// Heard is when its scheduler has last done something to it, or Since.
	Heard time.Time
	// Bound is set if it does not wait any more, but did a moment ago.
	Bound bool
	// SchedulerSeen is set if its scheduler is known to run, or to have run.
	SchedulerSeen bool
	// Rejected is set if its scheduler has found no place for it. It tries again when
	// something becomes free.
	Rejected bool
	// Decided is set if its scheduler has found a place: it is about to write that. If it was
	// rejected before, that is not known: it may also wait for others to be preempted.
	Decided bool
	// TakesPart is set if its scheduler is known to take part in the protocol: it does not
	// contend with that.
	TakesPart bool
}

// Registry has the pods that wait and those that were bound within the last Memory. All
// methods are safe for concurrent use.
//
// It believes nothing that users can write: what tells of a scheduler is in the status of pods, or
// is that a pod was seen to get a node. A pod that came with one may be placed by its creator.
type Registry struct {
	clock clock.PassiveClock
	needs func(*v1.Pod) bool

	mutex sync.Mutex
	// own are the schedulerNames of this scheduler.
	own  sets.Set[string]
	pods map[types.UID]*entry
	// in has the same pods by namespace; there is none without pods.
	in map[string]*namespace
	// swept is when what does not count any more was last forgotten.
	swept time.Time
	// ours are pods of this scheduler that wait.
	ours map[types.UID]*patience
	// schedulers has what is known of others, by schedulerName.
	schedulers map[string]*scheduler
	// heard is when another scheduler has last done something to a pod that waited, by namespace.
	heard map[string]time.Time
	// version counts what may have made a contender, or changed one. learned is from when what is known
	// of a scheduler last changed, and so all its pods.
	version, learned uint64
}

// namespace are the pods of a namespace.
type namespace struct {
	pods map[types.UID]*entry
	// version is that of the Registry when one of them last changed.
	version uint64
}

type entry struct {
	pod   *v1.Pod
	since time.Time
	heard time.Time
	bound time.Time // zero: it waits
	// version is that of the Registry when this last changed.
	version uint64
}

// scheduler is another one.
type scheduler struct {
	// seen is set once it has done something to a pod.
	seen bool
	// ours is set once it was seen to take part, until it is seen not to; ignored is when that
	// was, the last time.
	ours    bool
	ignored time.Time
	// heard is when it has last done something to a pod that waited.
	heard time.Time
	// version is that of the Registry when what is known of its pods last changed with it.
	version uint64
}

// New returns an empty Registry. needs reports whether a pod needs devices.
func New(clock clock.PassiveClock, needs func(*v1.Pod) bool) *Registry {
	return &Registry{clock: clock, needs: needs, own: sets.New[string](),
		pods: make(map[types.UID]*entry), in: make(map[string]*namespace),
		ours: make(map[types.UID]*patience), heard: make(map[string]time.Time), schedulers: make(map[string]*scheduler)}
}

// Own tells a schedulerName of this scheduler.
func (r *Registry) Own(name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.own.Insert(name)
}

// Learn tells whether a scheduler was seen to take part in the protocol. One that was seen
// not to is not believed for some time. It reports whether that changes who contends.
func (r *Registry) Learn(name string, takesPart bool) (changed bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s, now := r.scheduler(name), r.clock.Now()
	before := s.ours
	switch {
	case !takesPart:
		s.ignored = now
		if s.ours {
			s.ours = false
			r.version++
			s.version, r.learned = r.version, r.version
		}
	case s.ignored.IsZero() || now.Sub(s.ignored) > distrust:
		s.ours = true
	}
	return s.ours != before
}

// Namespaces returns those in which contenders may be new, or have changed, since the given version of
// the list, in no order, and its version now. Version 0 is from before all.
func (r *Registry) Namespaces(since uint64) (names []string, version uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.sweep(r.clock.Now())
	for name, in := range r.in {
		if max(in.version, r.learned) > since {
			names = append(names, name)
		}
	}
	return names, r.version
}

// List returns the contenders of a namespace that are new, or have changed, since the given version of
// the list, in no order. A pod of which no scheduler has taken notice counts for a while only: perhaps
// there is none of that name. No more than limit pods are looked at, unless that is 0; more is set if
// there are others.
func (r *Registry) List(name string, since uint64, limit int) (list []Contender, more bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	in, now, looked := r.in[name], r.clock.Now(), 0
	if in == nil {
		return nil, false
	}
	for _, e := range in.pods {
		if looked++; limit > 0 && looked > limit {
			return list, true
		}
		if s := r.scheduler(e.pod.Spec.SchedulerName); max(e.version, s.version) > since && r.counts(e, s, now) {
			list = append(list, Contender{
				Pod: e.pod, Since: e.since, Heard: e.heard, Bound: !e.bound.IsZero(), SchedulerSeen: s.seen, TakesPart: s.ours,
				Rejected: nominee(e.pod) == "" && rejected(e.pod), Decided: nominee(e.pod) != "" && !rejected(e.pod),
			})
		}
	}
	return list, false
}

// counts reports whether a pod contends.
func (r *Registry) counts(e *entry, s *scheduler, now time.Time) bool {
	return !r.isOver(e, now) && (!e.bound.IsZero() || s.seen || now.Sub(e.since) <= Memory)
}

// isOver reports whether a pod will not contend any more.
func (r *Registry) isOver(e *entry, now time.Time) bool {
	return r.own.Has(e.pod.Spec.SchedulerName) || !e.bound.IsZero() && now.Sub(e.bound) > Memory
}

// sweep forgets, from time to time, what does not count any more.
func (r *Registry) sweep(now time.Time) {
	if !r.swept.IsZero() && now.Sub(r.swept) <= Memory {
		return
	}
	r.swept = now
	present := sets.New[string]()
	for uid, e := range r.pods {
		if r.isOver(e, now) {
			r.remove(uid)
			continue
		}
		present.Insert(e.pod.Spec.SchedulerName)
	}
	// Anybody may think up names.
	maps.DeleteFunc(r.schedulers, func(name string, s *scheduler) bool { return !s.seen && !present.Has(name) })
}

// put adds a pod.
func (r *Registry) put(e *entry) {
	r.pods[e.pod.UID] = e
	in := r.in[e.pod.Namespace]
	if in == nil {
		in = &namespace{pods: make(map[types.UID]*entry)}
		r.in[e.pod.Namespace] = in
	}
	in.pods[e.pod.UID] = e
}

// remove takes a pod out, if it is there.
func (r *Registry) remove(uid types.UID) {
	e := r.pods[uid]
	if e == nil {
		return
	}
	delete(r.pods, uid)
	in := r.in[e.pod.Namespace]
	if delete(in.pods, uid); len(in.pods) == 0 {
		delete(r.in, e.pod.Namespace)
	}
}

// Heard returns when any other scheduler has last nominated a node to a pod of the namespace that
// waited, or rejected or bound it. What is longer ago than Memory may be forgotten.
func (r *Registry) Heard(namespace string) time.Time {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.heard[namespace]
}

// ParticipantHeard reports whether another scheduler that takes part in the protocol has done any of that
// within some time.
func (r *Registry) ParticipantHeard(within time.Duration) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.clock.Now()
	for name, s := range r.schedulers {
		if s.ours && !r.own.Has(name) && !s.heard.IsZero() && now.Sub(s.heard) <= within {
			return true
		}
	}
	return false
}

// Add, Update and Delete take over events. initial is set for what existed at the start: of a
// pod that was bound then, nothing is to be learned but that its scheduler has run.
func (r *Registry) Add(pod *v1.Pod, initial bool) { r.apply(pod, initial) }

// Update is called for a change of a pod. One that was bound before anything was heard of it
// does not begin to count for that.
func (r *Registry) Update(before, pod *v1.Pod) {
	r.apply(pod, before.UID == pod.UID && before.Spec.NodeName != "")
}

// ClaimMade is called for a pod one of whose claims was made, or is not allocated any more: it
// could not contend for that before.
func (r *Registry) ClaimMade(uid types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.changed(uid)
}

// Delete is called for a pod that is gone.
func (r *Registry) Delete(uid types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.remove(uid)
	delete(r.ours, uid)
}

// apply takes over a pod. old is set if it is known from before that it was bound, should it
// not be among the pods.
func (r *Registry) apply(pod *v1.Pod, old bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	e, now := r.pods[pod.UID], r.clock.Now()
	bound := pod.Spec.NodeName != ""
	bindsNow := false
	switch {
	case pod.Spec.SchedulerName == "" || !r.needs(pod):
		return
	case r.own.Has(pod.Spec.SchedulerName):
		r.applyOurs(pod, now)
		return
	case over(pod):
		r.remove(pod.UID)
		return
	case e != nil:
		bindsNow = bound && e.bound.IsZero()
		if bindsNow || nominee(pod) != nominee(e.pod) || rejected(pod) != rejected(e.pod) {
			e.heard = now
			r.hear(pod.Namespace, now)
			r.scheduler(pod.Spec.SchedulerName).heard = now
		}
		e.pod = pod
		if bindsNow {
			e.bound = now
		}
	case len(pod.Spec.SchedulingGates) > 0:
		return
	case !bound:
		r.put(&entry{pod: pod, since: now, heard: now})
	case !old:
		// It was bound before anything was heard of it, or whoever created it has chosen the
		// node.
		r.put(&entry{pod: pod, since: now, heard: now, bound: now})
		r.changed(pod.UID)
		return
	}
	r.changed(pod.UID)
	if s := r.scheduler(pod.Spec.SchedulerName); s.note(pod, bindsNow) {
		s.version, r.learned = r.version, r.version
	}
}

// hear remembers when another scheduler has done something to a pod of a namespace.
func (r *Registry) hear(namespace string, now time.Time) {
	if _, known := r.heard[namespace]; !known && len(r.heard) > len(r.pods) {
		maps.DeleteFunc(r.heard, func(_ string, at time.Time) bool { return now.Sub(at) > Memory })
	}
	r.heard[namespace] = now
}

// changed makes a pod one of the next version of the list.
func (r *Registry) changed(uid types.UID) {
	r.version++
	if e := r.pods[uid]; e != nil {
		e.version = r.version
		r.in[e.pod.Namespace].version = r.version
	}
}

func (r *Registry) scheduler(name string) *scheduler {
	s := r.schedulers[name]
	if s == nil {
		s = &scheduler{}
		r.schedulers[name] = s
	}
	return s
}

// note looks for traces of the scheduler on a pod, which has been bound just now or not, and reports
// whether it found the first.
func (s *scheduler) note(pod *v1.Pod, bindsNow bool) bool {
	before := s.seen
	s.seen = s.seen || bindsNow || nominee(pod) != "" || rejected(pod)
	return s.seen != before
}

// isPodScheduled is not true of the condition with which the API server creates pods that have
// gates. It stays when the gates go, and no scheduler has written it.
func isPodScheduled(condition v1.PodCondition) bool {
	return condition.Type == v1.PodScheduled && condition.Reason != v1.PodReasonSchedulingGated
}

// over reports whether no scheduler will do anything for the pod any more.
func over(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed ||
		pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

func nominee(pod *v1.Pod) string { return pod.Status.NominatedNodeName }

func rejected(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition v1.PodCondition) bool {
		return isPodScheduled(condition) && condition.Status == v1.ConditionFalse
	})
}
