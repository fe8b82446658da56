package quartermaster

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

// waker gets pods out of the unschedulable ones. What a pod waited for by name (its own
// claim) has it tried at once. For devices that became free it does not pass over the
// back-off of the scheduling queue altogether: a pod that was rejected a moment ago may
// be tried at once, so that no device lies idle, but only so many pods a second. Others
// wait as long as the queue would have them wait.
type waker struct {
	activate func(klog.Logger, map[string]*v1.Pod)
	logger   klog.Logger
	atOnce   flowcontrol.PassiveRateLimiter
	now      func() time.Time
}

// The first pause after a rejection, and the longest; the defaults of the scheduling
// queue (podInitialBackoffSeconds and podMaxBackoffSeconds), whose settings a plugin
// does not get to see.
const (
	initialPause = time.Second
	longestPause = 10 * time.Second
)

// How many pods are woken within their pause: in a second, and at once after some time
// without any.
const (
	wokenASecond = 100
	wokenAtOnce  = 100
)

func newWaker(logger klog.Logger, activate func(klog.Logger, map[string]*v1.Pod)) *waker {
	return &waker{
		activate: activate,
		logger:   logger,
		atOnce:   flowcontrol.NewTokenBucketPassiveRateLimiter(wokenASecond, wokenAtOnce),
		now:      time.Now,
	}
}

// wake has the pod tried again, provided that it was this plugin that rejected it. If
// it is just being tried, this is remembered for the case that the plugin rejects it.
func (w *waker) wake(p *waitingPod) {
	if p.happened() {
		w.again(p)
	}
}

// wakeAtOnce is wake without any pause.
func (w *waker) wakeAtOnce(p *waitingPod) {
	if p.happened() {
		w.activateNow(p)
	}
}

// wakeAfterPause is wake after what remains of the pod's pause, however few there are.
func (w *waker) wakeAfterPause(p *waitingPod) {
	if !p.happened() {
		return
	}
	if rest := p.rest(w.now()); rest > 0 {
		p.after(rest, func() { w.activateNow(p) })
	} else if !p.isActive() {
		w.activateNow(p)
	}
}

// wakeLater has a pod that is active made active again, should this plugin not be asked about
// it within the longest pause.
func (w *waker) wakeLater(p *waitingPod) {
	p.after(longestPause, func() { w.activateNow(p) })
}

// reject notes that the plugin has rejected the pod, and has it tried again if something
// happened in this attempt that may help.
func (w *waker) reject(p *waitingPod) {
	if p.reject(w.now()) {
		w.again(p)
	}
}

// again activates the pod, now or later.
func (w *waker) again(p *waitingPod) {
	rest := p.rest(w.now())
	if rest > 0 && !w.atOnce.TryAccept() {
		p.after(rest, func() { w.activateNow(p) })
		return
	}
	w.activateNow(p)
}

func (w *waker) activateNow(p *waitingPod) {
	begun := p.attemptsBegun()
	pod := p.latest()
	w.activate(w.logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	p.activated(begun)
}

// pause is how long a pod has to wait after so many rejections.
func pause(rejections int) time.Duration {
	d := initialPause
	for i := 1; i < rejections && d < longestPause; i++ {
		d *= 2
	}
	return min(d, longestPause)
}
