package foreign

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

const (
	// Memory is the time for which a bound pod counts, and a pod that no scheduler seems to be responsible for.
	Memory = time.Minute
	// distrust is the time for which a scheduler does not count as taking part after it was seen not
	// to, even if it is then seen to take part: it may have been replaced by an instance of this
	// scheduler, or a user may have made this scheduler allocate a claim of its pods.
	distrust = 10 * time.Minute
)

// A Competitor is a pod of another scheduler.
type Competitor struct {
	Pod *v1.Pod
	// Since is the time when the pod was first seen to wait.
	Since time.Time
	// Heard is the time when its scheduler last changed the pod, or Since.
	Heard time.Time
	// Bound is set if the pod was bound a moment ago, and does not wait any more.
	Bound bool
	// SchedulerSeen is set if its scheduler is known to run, or to have run.
	SchedulerSeen bool
	// Rejected is set if its scheduler has found no place for the pod. The scheduler tries again when
	// something becomes free.
	Rejected bool
	// Decided is set if its scheduler has found a place, and is about to write that. It is not set if
	// the pod was rejected before: then the scheduler may also be waiting for victims to end.
	Decided bool
	// TakesPart is set if its scheduler is known to take part in the protocol, and therefore does not contend.
	TakesPart bool
}

// Needs finds out whether pods need devices.
type Needs interface {
	// MayHaveDevices reports whether a pod of another scheduler may get devices.
	MayHaveDevices(*v1.Pod) bool
}

// A Registry holds the pods that wait and those that were bound within the last Memory. All methods are
// safe for concurrent use.
//
// It trusts nothing that users can write. It learns about schedulers only from the status of pods, and from
// pods that get a node while it watches: the creator of a pod may have chosen the node that the pod came with.
type Registry struct {
	clock clock.PassiveClock
	needs Needs
	// liveness is that of the watch of waiting pods.
	liveness informer.Liveness

	mutex sync.Mutex
	// own are the schedulerNames of this scheduler.
	own  sets.Set[string]
	pods map[types.UID]*entry
	// gone holds the pods that ended or were deleted within the last Memory, and when that was seen: the other watch may be
	// late, and still tell that they exist.
	gone map[types.UID]time.Time
	// in holds the same pods by namespace, without namespaces that have no pods.
	in map[string]*namespace
	// swept is the time when outdated entries were last removed.
	swept time.Time
	// ours holds this scheduler's pods that wait.
	ours map[types.UID]*patience
	// schedulers holds the other schedulers, by schedulerName.
	schedulers map[string]*scheduler
	// heard holds the time when another scheduler last changed a waiting pod, by namespace.
	heard map[string]time.Time
	// version counts events that may have added or changed a competitor. learned is the version when a
	// scheduler, and thus all its pods, last changed.
	version, learned uint64
}

// scheduler is another scheduler.
type scheduler struct {
	// seen is set once the scheduler has changed a pod.
	seen bool
	// ours is set once the scheduler was seen to take part, until it is seen not to. ignored is the
	// time when it was last seen not to.
	ours    bool
	ignored time.Time
	// heard is the time when the scheduler last changed a pod that waited.
	heard time.Time
	// version is the Registry's version when the scheduler, and thus all its pods, last changed.
	version uint64
}

// New returns an empty Registry. needs reports whether a pod needs devices.
func New(clock clock.PassiveClock, needs Needs) *Registry {
	return &Registry{clock: clock, needs: needs, own: sets.New[string](),
		pods: make(map[types.UID]*entry), gone: make(map[types.UID]time.Time), in: make(map[string]*namespace),
		ours: make(map[types.UID]*patience), heard: make(map[string]time.Time), schedulers: make(map[string]*scheduler)}
}

// Own adds a schedulerName of this scheduler.
func (r *Registry) Own(name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.own.Insert(name)
}

// Learn records whether a scheduler was seen to take part in the protocol. A scheduler
// that was seen not to is distrusted for some time. Learn reports whether this changes the competitors.
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

// Namespaces returns the namespaces whose competitors may be new or changed since the given version of
// the list, in no order, and the present version. Version 0 is before all changes.
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

// List returns the competitors of a namespace that are new or changed since the given version of the list,
// in no order. A pod that no scheduler has noticed counts only for a while: there may be no scheduler of
// that name. List looks at no more than limit pods, unless limit is 0; more is set if there are others.
func (r *Registry) List(name string, since uint64, limit int) (list []Competitor, more bool) {
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
			list = append(list, Competitor{
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

// Heard returns the time when another scheduler last nominated a node for a waiting pod of the
// namespace, rejected it or bound it. Times longer ago than Memory may be forgotten.
func (r *Registry) Heard(namespace string) time.Time {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.heard[namespace]
}

// ParticipantHeard reports whether another scheduler that takes part in the protocol has done any of
// that within the given time.
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

// TakesPart reports whether another scheduler was seen to take part in the protocol.
func (r *Registry) TakesPart(name string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s := r.schedulers[name]
	return s != nil && s.ours && !r.own.Has(name)
}

// Add handles a new pod. initial is set for pods that existed at the start: if such a pod is bound, it
// only shows that its scheduler has run.
func (r *Registry) Add(pod *v1.Pod, initial bool) { r.apply(pod, initial) }

// Update handles a change of a pod. The change of a pod that was bound before the Registry knew it does
// not make the pod count.
func (r *Registry) Update(before, pod *v1.Pod) {
	r.apply(pod, before.UID == pod.UID && before.Spec.NodeName != "")
}

// ClaimMade is called for a pod if one of its claims was created or deallocated: the pod could not
// contend for that claim before.
func (r *Registry) ClaimMade(uid types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.changed(uid)
}

// Delete is called for a pod that is gone.
func (r *Registry) Delete(uid types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.end(uid)
	delete(r.ours, uid)
}

// apply stores the state of a pod. old is set if the pod is known to have been bound earlier, in case
// it is not in the Registry.
func (r *Registry) apply(pod *v1.Pod, old bool) {
	if pod.Spec.SchedulerName == "" || !r.needs.MayHaveDevices(pod) { // Asked without the mutex: a pod can have many resources.
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	e, now := r.pods[pod.UID], r.clock.Now()
	bound := pod.Spec.NodeName != ""
	bindsNow := false
	switch {
	case r.own.Has(pod.Spec.SchedulerName):
		r.applyOurs(pod, now)
		return
	case dra.HasEnded(pod):
		r.end(pod.UID)
		return
	case !r.gone[pod.UID].IsZero():
		return // The other watch has not seen it end yet.
	case e != nil && e.isAhead(pod):
		return // The other watch was faster.
	case e != nil:
		bindsNow = bound && e.pod.Spec.NodeName == ""
		if bindsNow || nominee(pod) != nominee(e.pod) || rejected(pod) != rejected(e.pod) {
			e.heard = now
			r.hear(pod.Namespace, now)
			r.scheduler(pod.Spec.SchedulerName).heard = now
		}
		e.pod = pod
		switch {
		case bindsNow:
			e.bound = now
		case !bound:
			e.bound = time.Time{}
		}
	case len(pod.Spec.SchedulingGates) > 0:
		return
	case !bound:
		r.put(&entry{pod: pod, since: now, heard: now})
	case !old:
		// The pod was bound before its first event, or its creator has chosen the node.
		r.put(&entry{pod: pod, since: now, heard: now, bound: now})
		r.changed(pod.UID)
		return
	}
	r.changed(pod.UID)
	if s := r.scheduler(pod.Spec.SchedulerName); s.note(pod, bindsNow) {
		s.version, r.learned = r.version, r.version
	}
}

// hear records that another scheduler has changed a pod of a namespace.
func (r *Registry) hear(namespace string, now time.Time) {
	if _, known := r.heard[namespace]; !known && len(r.heard) > len(r.pods) {
		maps.DeleteFunc(r.heard, func(_ string, at time.Time) bool { return now.Sub(at) > Memory })
	}
	r.heard[namespace] = now
}

// changed adds a pod to the next version of the list.
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

// note looks for traces of the scheduler on a pod; bindsNow is set if the pod was bound just now. It
// reports whether these are the scheduler's first traces.
func (s *scheduler) note(pod *v1.Pod, bindsNow bool) bool {
	before := s.seen
	s.seen = s.seen || bindsNow || nominee(pod) != "" || rejected(pod)
	return s.seen != before
}

// isPodScheduled reports whether a scheduler has written the PodScheduled condition. The API server
// writes one when it creates a pod with scheduling gates, and that one stays when the gates are removed.
func isPodScheduled(condition v1.PodCondition) bool {
	return condition.Type == v1.PodScheduled && condition.Reason != v1.PodReasonSchedulingGated
}

func nominee(pod *v1.Pod) string { return pod.Status.NominatedNodeName }

func rejected(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition v1.PodCondition) bool {
		return isPodScheduled(condition) && condition.Status == v1.ConditionFalse
	})
}
