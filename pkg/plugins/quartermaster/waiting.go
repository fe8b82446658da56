package quartermaster

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// waitingPods has the pods that this plugin was asked about and that are not bound:
// those that it may have to wake when a claim, a slice or a taint rule changes.
//
// The scheduling queue could do that. But it asks about each event for each pod that is
// not in its active part, for whatever reason, and of a thousand pods created at once
// all wait while two thousand updates of claims go by.
type waitingPods struct {
	mutex sync.Mutex
	pods  map[types.UID]*waitingPod
	// exists reports whether a pod is known to wait for a node.
	exists func(*v1.Pod) bool
}

// waitingPod is what is to be known about a pod between two attempts, and during one.
//
// No event is lost: begin comes before the attempt looks at anything. What happens
// later sets missed if the plugin has not rejected the pod (yet), and if it does so
// after all, then reject says that the pod is to be tried again.
type waitingPod struct {
	pod *v1.Pod

	mutex    sync.Mutex
	rejected bool      // by this plugin, in the latest attempt, on at least one node; or queued
	counted  bool      // the rejection is among attempts
	missed   bool      // something happened in this attempt that may help
	active   bool      // it was activated since, and not tried again yet, as far as is known
	begun    int       // attempts, this one included
	attempts int       // how often this plugin has rejected the pod
	since    time.Time // when it did so the last time
	// decided is set once the attempt knows what the pod needs: missing are its claims
	// without allocation, and task allocates them.
	decided  bool
	missing  []*resourceapi.ResourceClaim
	task     *allocator.Task
	extended extendedWant
	// anySlice is set if this attempt was kept from nodes by devices that the task might have
	// no use for after a change; sliceChanged, if slices changed in this attempt.
	anySlice, sliceChanged bool
	// everywhere is set if the next attempt is to look at all nodes.
	everywhere bool
	// timer is set while the pod is to be woken later.
	timer *time.Timer
	// verdicts are what this attempt found still to be evaluated, each with what ends
	// the wait for it.
	verdicts map[*selector.Work]func()
}

// followPods makes a registry that forgets pods which are bound or gone. It also tells
// of all pods that are deleted, or are going to be.
func followPods(pods cache.SharedIndexInformer, ended func(types.UID)) (*waitingPods, error) {
	w := &waitingPods{
		pods: make(map[types.UID]*waitingPod),
		exists: func(pod *v1.Pod) bool {
			known := fromStore[v1.Pod](pods.GetIndexer(), pod.Namespace+"/"+pod.Name)
			return known != nil && known.UID == pod.UID && known.Spec.NodeName == ""
		},
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			old, wasPod := before.(*v1.Pod)
			pod, isPod := after.(*v1.Pod)
			if wasPod && (isPod && pod.Spec.NodeName != "" && old.Spec.NodeName == "" || isPod && pod.UID != old.UID) {
				w.forget(old.UID)
			}
			if wasPod && isPod && (pod.DeletionTimestamp != nil || pod.UID != old.UID) {
				ended(old.UID)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				w.forget(pod.UID)
				ended(pod.UID)
			}
		},
	})
	return w, err
}

// begin notes that an attempt to schedule the pod starts.
func (w *waitingPods) begin(pod *v1.Pod) *waitingPod {
	w.mutex.Lock()
	entry := w.pods[pod.UID]
	if entry == nil {
		entry = &waitingPod{pod: pod}
		w.pods[pod.UID] = entry
	}
	w.mutex.Unlock()
	entry.begin(pod)
	if !w.exists(pod) {
		w.forget(pod.UID) // It was before we began, and so nobody else will do it.
	}
	return entry
}

func (w *waitingPods) forget(pod types.UID) {
	w.mutex.Lock()
	entry := w.pods[pod]
	delete(w.pods, pod)
	w.mutex.Unlock()
	if entry != nil {
		entry.stop()
	}
}

// get returns the entry of a pod, nil if there is none.
func (w *waitingPods) get(pod types.UID) *waitingPod {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.pods[pod]
}

// begun returns how many attempts to schedule a pod have begun.
func (w *waitingPods) begun(pod types.UID) int {
	entry := w.get(pod)
	if entry == nil {
		return 0
	}
	entry.mutex.Lock()
	defer entry.mutex.Unlock()
	return entry.begun
}

// empty reports whether no pod waits.
func (w *waitingPods) empty() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.pods) == 0
}

// all returns the entries of all pods, in no order.
func (w *waitingPods) all() []*waitingPod {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	entries := make([]*waitingPod, 0, len(w.pods))
	for _, entry := range w.pods {
		entries = append(entries, entry)
	}
	return entries
}

func (p *waitingPod) begin(pod *v1.Pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stopTimer()
	p.leaveVerdicts()
	p.pod, p.rejected, p.counted, p.missed, p.active = pod, false, false, false, false
	p.begun++
	p.decided, p.missing, p.task, p.extended = false, nil, nil, extendedWant{}
	p.anySlice, p.sliceChanged = false, false
}

// wants notes which claims the attempt needs devices for, if any.
func (p *waitingPod) wants(missing []*resourceapi.ResourceClaim, task *allocator.Task) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.decided, p.missing, p.task = true, missing, task
}

// wanted returns what was given to wants in this attempt.
func (p *waitingPod) wanted() ([]*resourceapi.ResourceClaim, *allocator.Task) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.missing, p.task
}

// lookEverywhere has the next attempt look at all nodes.
func (p *waitingPod) lookEverywhere() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.everywhere = true
}

// looksEverywhere reports, once, whether this attempt is to look at all nodes.
func (p *waitingPod) looksEverywhere() (all bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	all, p.everywhere = p.everywhere, false
	return all
}

// helpedByAnySlice notes that any change of slices may help, also if the task could not use
// what they have then. It reports, once, whether there was one in this attempt.
func (p *waitingPod) helpedByAnySlice() (happened bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	happened = p.sliceChanged && !p.anySlice
	p.anySlice = true
	return happened
}

// sliceHappened notes that slices changed. It reports whether any change may help the pod: a
// request for all devices waits for each pool to be complete and for each device that
// matches to be free.
func (p *waitingPod) sliceHappened() (mayHelp bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.sliceChanged = true
	return p.anySlice || wantsAll(p.missing)
}

// reject notes that the plugin has rejected the pod. It reports whether something
// happened meanwhile that may help, so that the pod has to be tried again.
func (p *waitingPod) reject(now time.Time) (again bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.counted {
		p.counted, p.since = true, now
		p.attempts++
	}
	p.rejected = true
	again, p.missed = p.missed, false
	return again
}

// queue notes that the pod is about to be queued for another attempt, whatever became of
// the last one. Until that begins, this plugin may be what it waits for.
func (p *waitingPod) queue() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.rejected, p.active = true, false
}

// happened notes something that may help the pod. It reports whether the pod has to be
// tried again: not if this plugin did not reject it.
func (p *waitingPod) happened() (again bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.rejected {
		p.missed = true
	}
	return p.rejected
}

// missIfOpen notes something that may help the pod if it is not known yet what it needs.
// A rejected pod of which that is not known does not wait for devices.
func (p *waitingPod) missIfOpen() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.rejected && !p.decided {
		p.missed = true
	}
}

// rest is what remains of the pause after the last rejection.
func (p *waitingPod) rest(now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return pause(p.attempts) - now.Sub(p.since)
}

// after calls the function after some time unless that is due already. It does not do
// so if an attempt begins before.
func (p *waitingPod) after(d time.Duration, wake func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.timer != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		p.mutex.Lock()
		stopped := p.timer != timer
		if !stopped {
			p.timer = nil
		}
		p.mutex.Unlock()
		if !stopped {
			wake()
		}
	})
	p.timer = timer
}

// latest is the pod as it was when it was last tried.
func (p *waitingPod) latest() *v1.Pod {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.pod
}

// attemptsBegun is how often the pod was tried, counting an attempt under way.
func (p *waitingPod) attemptsBegun() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.begun
}

// activated notes that the pod was made active after so many attempts had begun.
func (p *waitingPod) activated(begun int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.active = p.rejected && p.begun == begun
}

// isActive reports whether the pod was activated and not tried again yet. It usually is about
// to be, and will find what is in the state by then; but another plugin may keep it out of
// the queue.
func (p *waitingPod) isActive() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.active
}

func (p *waitingPod) stop() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stopTimer()
	p.leaveVerdicts()
}

// stopTimer needs the mutex.
func (p *waitingPod) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// extendedWant is what a waiting pod wants for its extended resources.
type extendedWant struct {
	// claim is the one that would be made where devices have to serve all of them.
	claim *resourceapi.ResourceClaim
	// leftOver is set if an earlier attempt has left a claim that may be in the way.
	leftOver bool
}

// wantsExtended notes what the attempt found out about the pod's extended resources.
func (p *waitingPod) wantsExtended(claim *resourceapi.ResourceClaim, leftOver bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.extended = extendedWant{claim: claim, leftOver: leftOver}
}

func (p *waitingPod) wantedExtended() extendedWant {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.extended
}
