package coordinator

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// queue simulates the scheduling queue and its nominator, as far as gangs depend on them.
type queue struct {
	mutex     sync.Mutex
	active    []*v1.Pod
	rejected  map[types.UID]*v1.Pod
	inFlight  map[types.UID]bool // Whether it was activated meanwhile.
	nominated map[types.UID]string
	activated map[string]int
	more      chan struct{}
}

func newQueue() *queue {
	return &queue{
		rejected: make(map[types.UID]*v1.Pod), inFlight: make(map[types.UID]bool), nominated: make(map[types.UID]string),
		activated: make(map[string]int), more: make(chan struct{}, 1),
	}
}

func (q *queue) add(pod *v1.Pod) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.push(pod)
}

func (q *queue) push(pod *v1.Pod) {
	q.active = append(q.active, pod)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// pop returns the next pod, nil when the context ends.
func (q *queue) pop(ctx context.Context) *v1.Pod {
	for {
		q.mutex.Lock()
		if len(q.active) > 0 {
			pod := q.active[0]
			q.active = q.active[1:]
			q.inFlight[pod.UID] = false
			q.mutex.Unlock()
			time.Sleep(time.Millisecond)
			return pod
		}
		q.mutex.Unlock()
		select {
		case <-q.more:
		case <-ctx.Done():
			return nil
		}
	}
}

// reject makes a pod wait until it is activated, unless it was in the meantime. Its nomination ends.
func (q *queue) reject(pod *v1.Pod) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	activated, known := q.inFlight[pod.UID]
	delete(q.inFlight, pod.UID)
	delete(q.nominated, pod.UID)
	switch {
	case !known: // It is gone.
	case activated:
		q.push(pod)
	default:
		q.rejected[pod.UID] = pod
	}
}

// backOff retries a pod after a while, because of an error.
func (q *queue) backOff(pod *v1.Pod) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	delete(q.inFlight, pod.UID)
	delete(q.nominated, pod.UID)
	q.rejected[pod.UID] = pod
	time.AfterFunc(time.Second, func() { q.Activate(klog.Background(), map[string]*v1.Pod{"": pod}) })
}

func (q *queue) remove(pod *v1.Pod) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	delete(q.inFlight, pod.UID)
	delete(q.nominated, pod.UID)
	delete(q.rejected, pod.UID)
}

// Activate implements fwk.PodActivator.
func (q *queue) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for _, pod := range pods {
		q.activated[pod.Name]++
		if waits := q.rejected[pod.UID]; waits != nil {
			delete(q.rejected, pod.UID)
			q.push(waits)
		} else if _, trying := q.inFlight[pod.UID]; trying {
			q.inFlight[pod.UID] = true
		}
	}
}

// DeleteNominatedPodIfExists implements fwk.PodNominator.
func (q *queue) DeleteNominatedPodIfExists(pod *v1.Pod) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	delete(q.nominated, pod.UID)
}

func (q *queue) nominations() map[types.UID]string {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return maps.Clone(q.nominated)
}

// world is the Handle of its profile.
var _ Handle = &world{}

func (w *world) Activate(logger klog.Logger, pods map[string]*v1.Pod) { w.queue.Activate(logger, pods) }

func (w *world) AddNominatedPod(_ klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	w.queue.mutex.Lock()
	defer w.queue.mutex.Unlock()
	w.queue.nominated[pod.GetPod().UID] = info.NominatedNodeName
}

func (w *world) DeleteNominatedPodIfExists(pod *v1.Pod) { w.queue.DeleteNominatedPodIfExists(pod) }

func (w *world) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo) {}

func (w *world) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

func (w *world) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if waits := w.waiting[uid]; waits != nil {
		return waits
	}
	return nil
}

// waitingPod waits in Permit.
type waitingPod struct {
	pod     *v1.Pod
	verdict chan bool
}

func (w *world) wait(pod *v1.Pod, timeout time.Duration) *waitingPod {
	waits := &waitingPod{pod: pod, verdict: make(chan bool, 1)}
	time.AfterFunc(timeout, func() { waits.Reject("", "rejected due to timeout") })
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.waiting[pod.UID] = waits
	return waits
}

func (p *waitingPod) say(allowed bool) bool {
	select {
	case p.verdict <- allowed:
		return true
	default:
		return false
	}
}

func (p *waitingPod) GetPod() *v1.Pod                 { return p.pod }
func (p *waitingPod) GetPendingPlugins() []string     { return nil }
func (p *waitingPod) Allow(string)                    { p.say(true) }
func (p *waitingPod) Reject(string, string) bool      { return p.say(false) }
func (p *waitingPod) Preempt(plugin, msg string) bool { return p.Reject(plugin, msg) }

// extension is another plugin that registers one event.
type extension struct {
	// event is the one that it has registered, the update of a PersistentVolumeClaim if its resource is empty.
	event fwk.ClusterEvent
	hint  func(*v1.Pod) (fwk.QueueingHint, error)
	err   error
}

func (e *extension) Name() string { return "Other" }

func (e *extension) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	event := fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Update}}
	if e.event.Resource != "" {
		event.Event = e.event
	}
	if e.hint != nil {
		event.QueueingHintFn = func(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) { return e.hint(pod) }
	}
	return []fwk.ClusterEventWithHint{event}, e.err
}
