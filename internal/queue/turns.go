package queue

import (
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

const (
	// window limits the expected time of attempts for the pods of costly namespaces that are in the queue at a time. They are of one
	// namespace, or of different priorities.
	window = 50 * time.Millisecond
	// ordinary is the mean time of an attempt up to which any number of pods of a namespace may be queued. An attempt that
	// ends without a node counts for at least that: the scheduler writes the reason before it goes on.
	ordinary = 5 * time.Millisecond
	// unknown is the assumed time of an attempt before the first one of a namespace.
	unknown = window / 4
	// mostAfter limits the time of that write that counts.
	mostAfter = 250 * time.Millisecond
	// longestShut limits the time that others get, and the wait for pods that were let in and that others overtook: one pod is let
	// in within twice that.
	longestShut = time.Second
	// longestInside limits the wait for pods that were let in, whatever is known of the queue. An attempt may take long.
	longestInside = 10 * longestShut
	// mostAhead limits the attempts after which a pod that was let in counts as lost.
	mostAhead = 32
	// look is the interval between two looks at the queue while pods are held.
	look = 20 * time.Millisecond
	// A pod that was tried in the last backoff waits in the back-off of the scheduling queue, which an activation would end. So
	// it is held for as long as that would take (Pause).
	backoff = LongestPause
	// atOnce limits the pods of one activation: it locks the scheduling queue.
	atOnce = 128
	// manyNamespaces is the number of namespaces above which those without held pods are forgotten.
	manyNamespaces = 1000
)

// A Turn is the reason why a pod is held. Its text has no numbers, so that it stays the same.
type Turn struct {
	Since time.Time
}

func (Turn) Error() string {
	return "pods of this namespace are tried in turn with pods of other namespaces because an attempt takes the scheduler long or its time is not known yet"
}

// Queue is the scheduling queue. Turns holds no lock when it calls Activate, which takes in pods that were held.
type Queue interface {
	fwk.PodActivator
	// Leadership says whether this process schedules. The queue of a standby takes in all pods, and tries none.
	lease.Leadership
	// Active returns the number of pods that are about to be tried.
	Active() int
}

// Turns makes namespaces take turns. The scheduling queue is sorted by priority and time, so that a pod waits for each pod that
// another tenant created before it. Turns holds pods of namespaces whose attempts take long: few of them are in the queue at a
// time, and the next ones follow once the scheduler has tried the waiting pods of other namespaces. If no others wait, they
// follow at once.
//
// Even if the knowledge of the queue is wrong, a timer lets in one pod every longestInside, the first of its namespace. Turns is
// safe for concurrent use. Hold may be called with the lock of the scheduling queue held, and Activate must not be called then;
// so Hold and Forget leave it to the timer.
type Turns struct {
	queue Queue

	mutex      sync.Mutex
	namespaces map[string]*namespace
	// held holds the pods that are not in the queue, and waiting their namespaces. inside holds the pods that were let in and have
	// not been tried, with the expected time of their attempts.
	held    map[types.UID]*heldPod
	waiting map[*namespace]bool
	inside  map[types.UID]expected
	// later holds the held pods whose back-off has not passed yet, by its end.
	later []*heldPod
	// resume is the time when the next pod is let in if others wait.
	resume time.Time
	timer  *time.Timer // nil if no pod is held
	// used is the value of namespace.used, before that, of the namespace whose pod was let in last.
	used time.Duration
	// recent and before hold the pods that were tried since rotated, and in the backoff before that.
	recent, before map[types.UID]tries
	rotated        time.Time
	// waking holds the pods that Wake is activating.
	waking map[types.UID]bool
	last   attempt
	number uint64
	// begun counts the attempts.
	begun uint64
}

// namespace holds the state of the pods of one namespace.
type namespace struct {
	cost  time.Duration // mean time of an attempt, moving; unknown before the first one
	known bool
	line  []*heldPod // held pods by priority and time
	// used is the expected time of the pods that were let in. It begins with the value of other namespaces when a line begins.
	used time.Duration
}

type heldPod struct {
	pod        *v1.Pod
	of         *namespace
	number     uint64
	since, due time.Time
	isLater    bool
}

// tries counts the recent attempts of a pod. Unless the last attempt ended without a node, the pod is not held: after an error it
// waits in the back-off whether others wait or not, and the queue may ask again about a pod that was let in.
type tries struct {
	number   int
	rejected bool
}

// expected is the expected time of the attempt for a pod that was let in.
type expected struct {
	of       *namespace
	priority int32
	cost     time.Duration
	letIn    time.Time
	// last is the value of Turns.begun by which the pod has been tried unless others overtook it.
	last uint64
}

// attempt describes the current attempt, or the last one.
type attempt struct {
	uid          types.UID
	of           *namespace // nil for pods that do not take turns
	began, ended time.Time
	rejected     bool
	// isLast is true until the end of an attempt after which no pod is left that was let in; expected is the time that it was to take.
	isLast   bool
	expected time.Duration
	// busy is set if others were waiting when it ended: the time until the next attempt is that of the scheduler's writes.
	busy bool
}

// NewTurns returns Turns for a scheduling queue.
func NewTurns(queue Queue) *Turns {
	return &Turns{
		queue: queue, namespaces: make(map[string]*namespace), waiting: make(map[*namespace]bool), held: make(map[types.UID]*heldPod),
		inside: make(map[types.UID]expected), recent: make(map[types.UID]tries), waking: make(map[types.UID]bool),
	}
}

// Hold returns a Turn if a pod must not be queued yet. The pod is activated when it is its turn.
func (t *Turns) Hold(pod *v1.Pod) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if own := t.held[pod.UID]; own != nil {
		own.pod = pod
		return Turn{own.since}
	}
	n := t.namespaces[pod.Namespace]
	_, isInside := t.inside[pod.UID]
	tries, found := t.triesOf(pod.UID)
	switch {
	case t.last.began.IsZero(), n != nil && !n.isCostly(), isInside, found && !tries.rejected && !t.waking[pod.UID], t.queue.Leads() != nil:
		return nil
	}
	now, active := time.Now(), t.queue.Active()
	own := &heldPod{pod: pod, of: t.namespace(pod.Namespace), since: now, due: now}
	may := len(t.waiting) == 0 && t.mayLetIn(own, now, active)
	if found && !t.waking[pod.UID] {
		own.due = now.Add(Pause(tries.number))
		may = len(t.later) == 0 && t.isIdle(active) // The scheduling queue cuts the back-off short if there is nothing else to do.
	}
	if may {
		own.of.used = t.used
		t.letIn(own, now, active)
		return nil
	}
	t.held[pod.UID] = own
	t.line(own, now)
	if t.timer == nil {
		t.timer = time.AfterFunc(look, t.lookAgain)
	}
	return Turn{now}
}

// Activate implements fwk.PodActivator: it ends the back-off of pods. They may be held until it is their turn.
func (t *Turns) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	t.note(pods, true)
	t.queue.Activate(logger, pods)
	t.note(pods, false)
}

func (t *Turns) note(pods map[string]*v1.Pod, waking bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, pod := range pods {
		if waking {
			t.waking[pod.UID] = true
			if own := t.held[pod.UID]; own != nil && own.isLater {
				t.drop(own)
				own.due = time.Now()
				t.held[pod.UID] = own
				t.line(own, own.due)
			}
		} else {
			delete(t.waking, pod.UID)
		}
	}
}

// Held returns a Turn if a pod is held.
func (t *Turns) Held(pod types.UID) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if own := t.held[pod]; own != nil {
		return Turn{own.since}
	}
	return nil
}

// Begin notes that an attempt to schedule a pod begins, of one that takes turns or not.
func (t *Turns) Begin(pod *v1.Pod, takesTurns bool) {
	t.mutex.Lock()
	now := time.Now()
	t.settle(now)
	t.last = attempt{uid: pod.UID, began: now}
	t.begun++
	if takesTurns {
		t.last.of = t.namespace(pod.Namespace)
	}
	t.noteTries(pod.UID, 1, now)
	t.leave(pod.UID, now)
	t.drop(t.held[pod.UID])
	pods := t.next(now)
	t.mutex.Unlock()
	t.activate(pods)
}

// Placed notes that there is a node for the pod that is being tried.
func (t *Turns) Placed(pod *v1.Pod) { t.activate(t.end(pod, false)) }

// Rejected notes that there is none.
func (t *Turns) Rejected(pod *v1.Pod) { t.activate(t.end(pod, true)) }

// end notes the end of an attempt. It returns the pods whose turn it is if no Begin came before, because another plugin rejected the pod first.
func (t *Turns) end(pod *v1.Pod, rejected bool) map[string]*v1.Pod {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	if _, isInside := t.inside[pod.UID]; isInside {
		t.begun++
		t.noteTries(pod.UID, 1, now)
		t.noteEnd(pod.UID, rejected)
		t.leave(pod.UID, now)
		return t.next(now)
	}
	if t.last.uid != pod.UID {
		return nil
	}
	if t.last.ended.IsZero() {
		t.last.ended, t.last.rejected, t.last.busy = now, rejected, t.queue.Active() > 0
		t.noteEnd(pod.UID, rejected)
	}
	if t.last.isLast && len(t.inside) == 0 {
		t.resume = now.Add(min(max(now.Sub(t.last.began), t.last.expected), longestShut))
	}
	t.last.isLast = false
	return nil
}

// Forget notes that a pod is not going to be tried any more, or that something else keeps it out of the queue.
func (t *Turns) Forget(pod types.UID) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.leave(pod, time.Now())
	t.drop(t.held[pod])
}

// lookAgain lets in whose turn it is while no attempt begins, or none that is noted here.
func (t *Turns) lookAgain() {
	t.mutex.Lock()
	now := time.Now()
	idle := t.queue.Active() == 0
	maps.DeleteFunc(t.inside, func(_ types.UID, in expected) bool { // Those are being tried, or something else keeps them out.
		waits := now.Sub(in.letIn)
		return idle || waits >= longestShut && t.begun > in.last || waits >= longestInside
	})
	pods := t.next(now)
	t.mutex.Unlock()
	t.activate(pods)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.timer = nil; len(t.held) > 0 {
		t.timer = time.AfterFunc(look, t.lookAgain)
	}
}

// next takes those pods from the ones that are held whose turn it is, all if this process does not schedule.
func (t *Turns) next(now time.Time) map[string]*v1.Pod {
	if len(t.held) == 0 {
		return nil
	}
	leads, active := t.queue.Leads() == nil, t.queue.Active()
	pods := make(map[string]*v1.Pod)
	for len(t.later) > 0 && (!leads || !t.later[0].due.After(now) || t.isIdle(active)) {
		own := t.later[0]
		t.drop(own)
		own.due = now
		t.held[own.pod.UID] = own
		t.line(own, now)
	}
	for len(t.waiting) > 0 && len(pods) < atOnce {
		n := t.first()
		own := n.line[0]
		if leads && n.isCostly() {
			if !t.mayLetIn(own, now, active) {
				break
			}
			active++
		}
		t.drop(own)
		t.letIn(own, now, active)
		pods[own.pod.Namespace+"/"+own.pod.Name] = own.pod
	}
	return pods
}

func (t *Turns) activate(pods map[string]*v1.Pod) {
	if len(pods) > 0 {
		t.queue.Activate(klog.Background(), pods)
	}
}

// isIdle reports whether nobody waits for an attempt, as far as is known.
func (t *Turns) isIdle(active int) bool {
	return active == 0 && len(t.inside) == 0 && len(t.waiting) == 0
}

// mayLetIn reports whether a pod is let in.
func (t *Turns) mayLetIn(own *heldPod, now time.Time, active int) bool {
	if active > len(t.inside) && now.Before(t.resume) {
		return false // Others wait.
	}
	load := own.of.cost
	for _, in := range t.inside {
		if in.of != own.of && in.priority == priority(own) {
			return false // If it is older, it would be tried first, and the next ones too.
		}
		load += in.cost
	}
	return len(t.inside) == 0 || load <= window
}

// letIn notes that a pod is queued, in a queue with some active pods.
func (t *Turns) letIn(own *heldPod, now time.Time, active int) {
	n := own.of
	t.inside[own.pod.UID] = expected{n, priority(own), n.cost, now, t.begun + uint64(min(active, mostAhead)) + 1}
	t.used, n.used = n.used, n.used+n.cost
	t.noteTries(own.pod.UID, 0, now)
	// Others that wait by then have their turn first, even if this one is lost.
	t.resume = now.Add(longestShut)
}

// leave notes that a pod is not queued any more. After the attempt for the last one others get as much time as it took.
func (t *Turns) leave(pod types.UID, now time.Time) {
	in, found := t.inside[pod]
	if delete(t.inside, pod); found && len(t.inside) == 0 {
		t.resume = now.Add(min(2*in.cost, longestShut))
		if t.last.uid == pod && t.last.ended.IsZero() { // It is being tried.
			t.resume, t.last.isLast, t.last.expected = now.Add(longestShut), true, in.cost
		}
	}
}
