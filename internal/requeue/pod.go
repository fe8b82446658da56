package requeue

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/waitcause"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Pod is what is to be known about a pod between two attempts, and during one.
//
// No event is lost: Begin comes before the attempt looks at anything. What happens
// later sets missed if the plugin has not rejected the pod (yet), and if it does so
// after all, then Waker.Reject says that the pod is to be tried again.
type Pod struct {
	// Causes are why it waits for devices, as far as its latest attempt has found out.
	Causes waitcause.Causes

	pod *v1.Pod

	mutex    sync.Mutex
	rejected bool      // by this plugin, in the latest attempt, on at least one node; or queued
	counted  bool      // the rejection is among attempts
	missed   bool      // something happened in this attempt that may help
	active   bool      // it was activated since, and not tried again yet, as far as is known
	kept     bool      // it was kept out of the queue, so that activating it was in vain
	learnt   bool      // what it asks for was taken into account
	begun    int       // attempts, this one included
	attempts int       // how often this plugin has rejected the pod
	errors   int       // how often an attempt came to nothing for another reason since
	since    time.Time // when the last attempt was rejected, or came to nothing
	passes   passes    // how often the pod was tried before its pause was over
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
	// releasing is since when each attempt found that claims are about to be deallocated.
	releasing time.Time
	// timer is set while the pod is to be woken later.
	timer *time.Timer
	// verdicts are what this attempt found still to be evaluated, each with what ends
	// the wait for it.
	verdicts map[*selector.Work]func()
}

func (p *Pod) begin(pod *v1.Pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stopTimer()
	p.leaveVerdicts()
	p.pod, p.rejected, p.counted, p.missed, p.active = pod, false, false, false, false
	p.Causes.Clear()
	p.begun++
	p.decided, p.missing, p.task, p.extended = false, nil, nil, extendedWant{}
	p.anySlice, p.sliceChanged = false, false
}

// Wants notes which claims the attempt needs devices for, if any.
func (p *Pod) Wants(missing []*resourceapi.ResourceClaim, task *allocator.Task) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.decided, p.missing, p.task = true, missing, task
}

// Wanted returns what was given to Wants in this attempt.
func (p *Pod) Wanted() ([]*resourceapi.ResourceClaim, *allocator.Task) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.missing, p.task
}

// AwaitsRelease notes whether the attempt has found that devices become free as soon as claims of pods that have ended
// are deallocated, and returns for how long all attempts have found that.
func (p *Pod) AwaitsRelease(awaits bool, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case !awaits:
		p.releasing = time.Time{}
		return 0
	case p.releasing.IsZero():
		p.releasing = now
	}
	return now.Sub(p.releasing)
}

// LookEverywhere has the next attempt look at all nodes.
func (p *Pod) LookEverywhere() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.everywhere = true
}

// LooksEverywhere reports, once, whether this attempt is to look at all nodes.
func (p *Pod) LooksEverywhere() (all bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	all, p.everywhere = p.everywhere, false
	return all
}

// Learn reports, once, that what the pod asks for is to be taken into account.
func (p *Pod) Learn() (first bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	first, p.learnt = !p.learnt, true
	return first
}

// HelpedByAnySlice notes that any change of slices may help, also if the task could not use
// what they have then. It reports, once, whether there was one in this attempt.
func (p *Pod) HelpedByAnySlice() (happened bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	happened = p.sliceChanged && !p.anySlice
	p.anySlice = true
	return happened
}

// sliceHappened notes that slices changed. It reports whether any change may help the pod: a
// request for all devices waits for each pool to be complete and for each device that
// matches to be free.
func (p *Pod) sliceHappened() (mayHelp bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.sliceChanged = true
	return p.anySlice || wantsAll(p.missing)
}

// reject notes that the plugin has rejected the pod. It reports whether something
// happened meanwhile that may help, so that the pod has to be tried again.
func (p *Pod) reject(now time.Time) (again bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.counted {
		p.counted, p.since, p.errors = true, now, 0
		p.attempts++
	}
	p.rejected = true
	p.Causes.NoteOther()
	again, p.missed = p.missed, false
	return again
}

// Queue notes that the pod is about to be queued for another attempt, whatever became of
// the last one. Until that begins, this plugin may be what it waits for.
func (p *Pod) Queue() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.rejected, p.active, p.kept = true, false, false
}

// KeepOut notes that the pod was not queued after all: until Queue is called again, activating it does nothing.
func (p *Pod) KeepOut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.kept = true
}

// happened notes something that may help the pod. It reports whether the pod has to be
// tried again: not if this plugin did not reject it.
func (p *Pod) happened() (again bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.rejected {
		p.missed = true
	}
	return p.rejected
}

// MissIfOpen notes something that may help the pod if it is not known yet what it needs.
// A rejected pod of which that is not known does not wait for devices.
func (p *Pod) MissIfOpen() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.rejected && !p.decided {
		p.missed = true
	}
}

// rest is what remains of the pause after the last attempt.
func (p *Pod) rest(now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.restLocked(now)
}

// restLocked is rest for those who hold the mutex. As in the scheduling queue, errors count by themselves.
func (p *Pod) restLocked(now time.Time) time.Duration {
	if p.errors > 0 {
		return pause(p.errors) - now.Sub(p.since)
	}
	return pause(p.attempts) - now.Sub(p.since)
}

// after calls the function after some time unless that is due already. It does not do
// so if an attempt begins before.
func (p *Pod) after(d time.Duration, wake func()) {
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

// Latest is the pod as it was when it was last tried.
func (p *Pod) Latest() *v1.Pod {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.pod
}

// attemptsBegun is how often the pod was tried, counting an attempt under way.
func (p *Pod) attemptsBegun() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.begun
}

// activated notes that the pod was made active after so many attempts had begun.
func (p *Pod) activated(begun int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.active = p.rejected && p.begun == begun && !p.kept
}

// isActive reports whether the pod was activated and not tried again yet. It usually is about
// to be, and will find what is in the state by then; but another plugin may keep it out of
// the queue.
// isDue reports whether a rejected pod is in its pause, and is going to be woken.
func (p *Pod) isDue(now time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.rejected && p.timer != nil && p.restLocked(now) > 0
}

func (p *Pod) isActive() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.active
}

func (p *Pod) stop() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stopTimer()
	p.leaveVerdicts()
}

// stopTimer needs the mutex.
func (p *Pod) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// extendedWant is what a waiting pod wants for its extended resources.
type extendedWant struct {
	// claim is the one that would be made where devices have to back all of them.
	claim *resourceapi.ResourceClaim
	// leftOver is set if an earlier attempt has left a claim that may be in the way.
	leftOver bool
}

// WantsExtended notes what the attempt found out about the pod's extended resources: the claim
// that would be made where devices have to back all of them, and whether an earlier attempt has
// left a claim that may be in the way.
func (p *Pod) WantsExtended(claim *resourceapi.ResourceClaim, leftOver bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.extended = extendedWant{claim: claim, leftOver: leftOver}
}

// WantedExtended returns what was given to WantsExtended in this attempt.
func (p *Pod) WantedExtended() (claim *resourceapi.ResourceClaim, leftOver bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.extended.claim, p.extended.leftOver
}
