package gate

import (
	"container/heap"
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/clock"
)

const (
	// window is how long the attempts take for which pods of one namespace are queued, on average; longer if a single one of another
	// namespace that waits takes longer.
	window = 50 * time.Millisecond
	// ordinary is what an attempt may take on average in a namespace of which any number of pods is queued. One that ends without a node counts
	// for at least that: such pods are tried again and again.
	ordinary = 5 * time.Millisecond
	// mostAfter bounds what counts of the time after an attempt that ended without a node, in which the scheduler writes the
	// reason; the rest may be idleness.
	mostAfter = 50 * time.Millisecond
	// queuedUnknown is how many pods of a namespace are queued before any was tried.
	queuedUnknown = 4
	// A pod that was queued, and has not been tried after that time, may be in its back-off, or another plugin may keep it out:
	// lost is when its namespace gets its place back, gone when it does not keep others waiting any more. If it is queued after all, those of
	// others that come before it would pass it one by one.
	lost, gone = 10 * time.Second, 30 * time.Second
	// atOnce bounds how many pods are queued in one go: the queue is locked meanwhile.
	atOnce = 128
	// manyNamespaces is from how many on those without any pods are forgotten.
	manyNamespaces = 1000
)

// Turns has namespaces take turns. The queue is sorted by priority and time, so that without this a pod waits for
// every pod that somebody else created before. Where attempts take long, only so many pods of a namespace are queued
// as take a moment, and the next ones only after those of others that were there. It is safe for concurrent use.
//
// Callers may hold the lock of the queue: pods are activated on another goroutine.
type Turns struct {
	clock    clock.WithDelayedExecution
	activate func(pods map[string]*v1.Pod)

	mutex      sync.Mutex
	namespaces map[string]*namespace
	waiting    map[*namespace]bool // those with pods that wait
	turns      map[types.UID]*turn
	// queued are all turns that were queued and have not begun, in their order.
	queued list.List
	number uint64 // of the last one that was queued
	last   attempt
	// watching is set while a timer runs.
	watching bool
}

// namespace is what is known of the pods of one namespace.
type namespace struct {
	// cost is what an attempt takes, a moving mean; 0 before the first one.
	cost time.Duration
	// queued is how many turns are queued, by priority, and waiting are those that are not.
	queued  map[int32]int
	waiting turnHeap
	// blockedBy is the number of the last turn that was queued when the namespace could have queued its next pod: that one
	// waits for others up to it. 0 if none waits.
	blockedBy uint64
}

// turn is a pod that is queued or waits for that.
type turn struct {
	pod       *v1.Pod
	priority  int32
	of        *namespace
	number    uint64        // in which order turns came to wait or were queued
	element   *list.Element // nil while it waits
	since     time.Time     // when it was queued
	lost      bool          // it does not count among the queued ones of its namespace
	heapIndex int
}

// attempt is the one under way, or the last one.
type attempt struct {
	uid          types.UID
	of           *namespace
	began, ended time.Time
	rejected     bool // its cost is not known before the next one begins
}

// NewTurns makes one that hands pods to the queue by activate.
func NewTurns(clock clock.WithDelayedExecution, activate func(pods map[string]*v1.Pod)) *Turns {
	return &Turns{clock: clock, activate: activate, namespaces: make(map[string]*namespace),
		waiting: make(map[*namespace]bool), turns: make(map[types.UID]*turn)}
}

// errTurn is a reason without numbers: it is the same however often it is told.
var errTurn = errors.New("pods of this namespace take the scheduler more time than usual and are tried in turn with pods of other namespaces")

// Waits returns why a pod is not queued, nil if that is not because of its namespace, or if it was told before what
// the pod lacks.
func (t *Turns) Waits(pod *v1.Pod) error {
	if _, told := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); told != nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if turn := t.turns[pod.UID]; turn != nil && turn.element == nil {
		return errTurn
	}
	return nil
}

// Queue reports whether a pod may be queued. If not, it is activated when it is its turn, and the error says so.
func (t *Turns) Queue(pod *v1.Pod) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	own := t.turns[pod.UID]
	if own == nil {
		own = &turn{priority: corev1helpers.PodPriority(pod), of: t.namespace(pod.Namespace)}
		t.turns[pod.UID] = own
		t.number++
		own.number = t.number
		heap.Push(&own.of.waiting, own)
	}
	own.pod = pod
	if own.element != nil {
		return nil
	}
	if own.of.waiting[0] == own && t.isFree(own.of, t.window()) {
		t.enqueue(own)
		return nil
	}
	t.waiting[own.of] = true
	t.watch()
	return errTurn
}

// Begin notes that an attempt to schedule a pod begins.
func (t *Turns) Begin(pod *v1.Pod) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.clock.Now()
	t.settle(now)
	t.last = attempt{uid: pod.UID, of: t.namespace(pod.Namespace), began: now}
	t.forget(pod.UID)
	t.refill()
}

// Placed notes that there is a node for the pod that is being tried.
func (t *Turns) Placed(pod *v1.Pod) { t.end(pod, false) }

// Rejected notes that there is none.
func (t *Turns) Rejected(pod *v1.Pod) { t.end(pod, true) }

func (t *Turns) end(pod *v1.Pod, rejected bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.last.uid != pod.UID || !t.last.ended.IsZero() {
		t.forget(pod.UID) // Another plugin has rejected it before it began here.
		t.refill()
		return
	}
	t.last.ended, t.last.rejected = t.clock.Now(), rejected
	if !rejected {
		t.settle(t.last.ended)
		t.refill()
	}
}

// Forget notes that a pod is not going to be tried any more.
func (t *Turns) Forget(pod types.UID) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.forget(pod)
	t.refill()
}

func (t *Turns) forget(pod types.UID) {
	own := t.turns[pod]
	switch {
	case own == nil:
		return
	case own.element == nil:
		t.pop(own)
	default:
		t.queued.Remove(own.element)
		own.lose()
	}
	delete(t.turns, pod)
}

// lose gives a namespace the place back that the turn has.
func (own *turn) lose() {
	if own.lost {
		return
	}
	own.lost = true
	if own.of.queued[own.priority]--; own.of.queued[own.priority] == 0 {
		delete(own.of.queued, own.priority)
	}
}

// pop takes a turn from those that wait.
func (t *Turns) pop(own *turn) {
	heap.Remove(&own.of.waiting, own.heapIndex)
	if len(own.of.waiting) == 0 {
		delete(t.waiting, own.of)
	}
}

// settle adds the last attempt to what attempts of its namespace take.
func (t *Turns) settle(now time.Time) {
	last := t.last
	t.last = attempt{}
	if last.of == nil || last.ended.IsZero() {
		return // It ended with an error, which says nothing.
	}
	cost := last.ended.Sub(last.began)
	if last.rejected {
		cost = max(ordinary, cost+min(now.Sub(last.ended), mostAfter))
	}
	if last.of.cost == 0 {
		last.of.cost = max(1, cost)
	} else {
		last.of.cost = max(1, last.of.cost+(cost-last.of.cost)/4)
	}
}

// window is for how long pods of each namespace are queued.
func (t *Turns) window() time.Duration {
	longest := window
	for n := range t.waiting {
		longest = max(longest, n.cost)
	}
	return longest
}

// most is how many pods of the namespace are queued at a time.
func (n *namespace) most(window time.Duration) (limit int, limited bool) {
	switch {
	case n.cost == 0:
		return queuedUnknown, true
	case n.cost < ordinary:
		return 0, false
	}
	return int(max(1, window/n.cost)), true
}

// isFree reports whether the next pod of a namespace that waits may be queued.
func (t *Turns) isFree(n *namespace, window time.Duration) bool {
	limit, limited := n.most(window)
	if !limited {
		return true
	}
	for priority, queued := range n.queued {
		if priority >= n.waiting[0].priority {
			limit -= queued
		}
	}
	if limit <= 0 {
		return false
	}
	if n.blockedBy == 0 {
		n.blockedBy = t.number
	}
	return n.cost == 0 || !t.isBlocked(n)
}

// isBlocked reports whether pods of others are queued that come before the next one of a namespace.
func (t *Turns) isBlocked(n *namespace) bool {
	for e := t.queued.Front(); e != nil; e = e.Next() {
		other := e.Value.(*turn)
		switch {
		case other.number > n.blockedBy:
			return false
		case other.of != n && other.priority >= n.waiting[0].priority:
			return true
		}
	}
	return false
}

// enqueue notes that a pod that waits is queued.
func (t *Turns) enqueue(own *turn) {
	t.pop(own)
	t.number++
	own.number, own.since = t.number, t.clock.Now()
	own.element = t.queued.PushBack(own)
	own.of.queued[own.priority]++
	own.of.blockedBy = 0
}

// refill queues the pods whose turn it is.
func (t *Turns) refill() {
	if len(t.waiting) == 0 {
		return
	}
	pods, window := make(map[string]*v1.Pod), t.window()
	for n := range t.waiting {
		for t.waiting[n] && len(pods) < atOnce && t.isFree(n, window) {
			own := n.waiting[0]
			t.enqueue(own)
			pods[own.pod.Namespace+"/"+own.pod.Name] = own.pod
		}
	}
	if len(pods) > 0 {
		go t.activate(pods)
	}
}

// watch has what is lost not count any more, as long as pods wait.
func (t *Turns) watch() {
	if t.watching {
		return
	}
	t.watching = true
	t.clock.AfterFunc(time.Second, func() {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		now := t.clock.Now()
		for e := t.queued.Front(); e != nil; {
			own := e.Value.(*turn)
			waits := now.Sub(own.since)
			if waits < lost {
				break
			}
			own.lose()
			if e = e.Next(); waits >= gone {
				t.forget(own.pod.UID)
			}
		}
		t.refill()
		first := t.queued.Front()
		if t.watching = false; len(t.waiting) > 0 || first != nil && first.Value.(*turn).lost {
			t.watch()
		}
	})
}

func (t *Turns) namespace(name string) *namespace {
	n := t.namespaces[name]
	if n != nil {
		return n
	}
	if len(t.namespaces) >= manyNamespaces {
		for name, n := range t.namespaces {
			if len(n.queued) == 0 && len(n.waiting) == 0 && n != t.last.of {
				delete(t.namespaces, name)
			}
		}
	}
	n = &namespace{queued: make(map[int32]int)}
	t.namespaces[name] = n
	return n
}

// turnHeap has the turn of the highest priority first, and of these the one that has waited longest.
type turnHeap []*turn

func (h turnHeap) Len() int { return len(h) }

func (h turnHeap) Less(i, j int) bool {
	if h[i].priority != h[j].priority {
		return h[i].priority > h[j].priority
	}
	return h[i].number < h[j].number
}

func (h turnHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (h *turnHeap) Push(x any) {
	own := x.(*turn)
	own.heapIndex = len(*h)
	*h = append(*h, own)
}

// Pop implements heap.Interface.
func (h *turnHeap) Pop() any {
	last := len(*h) - 1
	own := (*h)[last]
	(*h)[last] = nil
	*h = slices.Delete(*h, last, last+1)
	return own
}
