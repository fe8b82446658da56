package queue

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Waker moves pods from the unschedulable ones to the active queue. A pod that waited for its own claim
// is tried at once. A pod that waits for devices and was rejected a moment ago may be tried at once too, so
// that no device lies idle, but only so many pods a second; the others wait as long as the back-off of the
// scheduling queue. A pod that was tried at once several times waits as well, whatever wakes it: the event
// may follow from its own attempts, or from those of pods that wake each other.
type Waker struct {
	queue  fwk.PodActivator
	logger klog.Logger
	atOnce flowcontrol.PassiveRateLimiter
	clock  clock.PassiveClock
}

// wokenASecond limits the pods a second that are woken within their pause. WokenAtOnce limits those at one time, after some
// time without any.
const (
	wokenASecond = 100
	WokenAtOnce  = 100
)

// NewWaker returns a Waker that hands pods to a scheduling queue.
func NewWaker(logger klog.Logger, queue fwk.PodActivator) *Waker {
	return &Waker{
		queue:  queue,
		logger: logger,
		atOnce: flowcontrol.NewTokenBucketPassiveRateLimiter(wokenASecond, WokenAtOnce),
		clock:  clock.RealClock{},
	}
}

// Wake has the pod tried again, provided that it was this plugin that rejected it. If
// it is just being tried, this is remembered for the case that the plugin rejects it.
func (w *Waker) Wake(p *Pod) {
	if p.happened() {
		w.again(p)
	}
}

// WakeAtOnce is Wake without any pause, however many pods there are.
func (w *Waker) WakeAtOnce(p *Pod) {
	if p.happened() {
		w.activateNow(p)
	}
}

// WakeAfterPause is Wake after what remains of the pod's pause, however few there are.
func (w *Waker) WakeAfterPause(p *Pod) {
	if !p.happened() {
		return
	}
	if rest := p.rest(w.clock.Now()); rest > 0 {
		p.after(rest, func() { w.activateNow(p) })
	} else if !p.isActive() {
		w.activateNow(p)
	}
}

// wakeLater has a pod that is active made active again, should this plugin not be asked about
// it within the longest pause.
func (w *Waker) wakeLater(p *Pod) {
	p.after(LongestPause, func() { w.activateNow(p) })
}

// WakeIn has the pod tried again after some time, should no attempt begin before.
func (w *Waker) WakeIn(p *Pod, d time.Duration) { p.after(d, func() { w.activateNow(p) }) }

// Reject notes that the plugin has rejected the pod, and has it tried again if something
// happened in this attempt that may help.
func (w *Waker) Reject(p *Pod) {
	if p.reject(w.clock.Now()) {
		w.again(p)
	}
}

// Retry has a rejected pod tried again after its pause, whatever happens or does not.
func (w *Waker) Retry(p *Pod) {
	p.after(max(0, p.rest(w.clock.Now())), func() { w.activateNow(p) })
}

// Nominated handles the event that a pod is nominated for a node. If the latest attempt has ended that nomination, the next
// one ends it on the server: until then, the pod keeps its room on the node from others.
func (w *Waker) Nominated(p *Pod) {
	if p.outlived() {
		w.Retry(p)
	}
}

// again activates the pod, now or later.
func (w *Waker) again(p *Pod) {
	if p.rest(w.clock.Now()) > 0 && !w.atOnce.TryAccept() {
		w.Retry(p)
		return
	}
	w.activateNow(p)
}

// activateNow makes the scheduling queue try the pod. If the pod was tried too often at once, it does so after a pause.
func (w *Waker) activateNow(p *Pod) {
	if wait := p.pass(w.clock.Now()); wait > 0 {
		p.after(wait, func() { w.activateNow(p) })
		return
	}
	begun := p.attemptsBegun()
	pod := p.Latest()
	w.queue.Activate(w.logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	p.activated(begun)
}
