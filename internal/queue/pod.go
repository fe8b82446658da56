package queue

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// A Pod is the state of a pod during an attempt and between two attempts.
//
// No event is lost: Begin comes before the attempt looks at anything. A later event sets missed if the
// plugin has not rejected the pod (yet). If the plugin rejects the pod after that, Waker.Reject
// tries the pod again.
type Pod struct {
	// Causes are the reasons why it waits for devices, as far as its latest attempt has determined them.
	Causes reasons.Causes

	pod *v1.Pod

	mutex    sync.Mutex
	rejected bool      // by this plugin, in the latest attempt, on at least one node; or queued
	counted  bool      // the rejection is counted in attempts
	missed   bool      // something happened in this attempt that may help
	active   bool      // it was activated since, and is not known to be tried again yet
	kept     bool      // it was kept out of the queue, so that activating it has no effect
	learnt   bool      // what it asks for was taken into account
	begun    int       // attempts, this one included
	tries    int       // attempts, and activations of its group whose attempt ended before it came to this pod
	first    time.Time // when the first attempt of this process began
	started  time.Time // when the latest of these began
	attempts int       // how often this plugin has rejected the pod
	errors   int       // attempts that failed for another reason since
	failedOn string    // the node of the last one of these
	since    time.Time // when the last attempt was rejected, or failed
	passes   passes    // attempts before the pause was over
	// decided is set once the attempt knows the needs of the pod: missing holds its claims
	// without allocation, and task allocates them.
	decided  bool
	missing  []*resourceapi.ResourceClaim
	task     *allocator.Task
	extended extendedWant
	// anySlice is set if devices kept this attempt from nodes, and a change of any slice may end that,
	// even of slices that the task could not use. sliceChanged is set if slices changed in this attempt.
	anySlice, sliceChanged bool
	// lacksRoom is set if devices for the pod would take more of a node than is left there.
	lacksRoom bool
	// everywhere is set if the next attempt must look at all nodes.
	everywhere bool
	// unnominated is set if the latest attempt ended the pod's nomination, or found none to make.
	unnominated bool
	// releasing is the time since when every attempt found that claims are about to be deallocated.
	releasing time.Time
	// awaiting is the time since when every attempt left devices that have to get ready to others, see AwaitsReady.
	awaiting time.Time
	// timer is set while a later wake-up is scheduled, for the time due.
	timer *time.Timer
	due   time.Time
	// verdicts holds the pending evaluations that this attempt found, each with the function that ends
	// the wait for it.
	verdicts map[*selector.Work]func()
}

// FirstTried returns when the first attempt of this process for the pod began.
func (p *Pod) FirstTried() time.Time {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.first
}

func (p *Pod) begin(pod *v1.Pod) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.first.IsZero() {
		p.first = time.Now()
	}
	p.stopTimer()
	p.leaveVerdicts()
	p.pod, p.rejected, p.counted, p.missed, p.active = pod, false, false, false, false
	p.Causes.Clear()
	p.begun++
	p.try()
	p.decided, p.missing, p.task, p.extended = false, nil, nil, extendedWant{}
	p.anySlice, p.sliceChanged, p.unnominated, p.lacksRoom = false, false, false, false
}

// NoteRoom records that devices for the pod would take more of a node than is left there.
func (p *Pod) NoteRoom() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lacksRoom = true
}

// LacksRoom reports whether NoteRoom was called in the latest attempt.
func (p *Pod) LacksRoom() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.lacksRoom
}

// Unnominated records that the attempt ends with the pod nominated for no node.
func (p *Pod) Unnominated() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.unnominated = true
}

// outlived reports, only once, whether a nomination that is seen now was made before the latest attempt ended it. kube-scheduler
// compares with the pod that its informer has: it writes nothing if that does not have the nomination yet.
func (p *Pod) outlived() (outdated bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	outdated, p.unnominated = p.unnominated, false
	return outdated
}

// Wants records which claims the attempt needs devices for, if any.
func (p *Pod) Wants(missing []*resourceapi.ResourceClaim, task *allocator.Task) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.decided, p.missing, p.task = true, missing, task
}

// Wanted returns the arguments of Wants in this attempt.
func (p *Pod) Wanted() ([]*resourceapi.ResourceClaim, *allocator.Task) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.missing, p.task
}

// AwaitsRelease records whether the attempt found that devices become free once claims of ended pods
// are deallocated. It returns for how long every attempt has found that.
func (p *Pod) AwaitsRelease(awaits bool, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return lasting(&p.releasing, awaits, now)
}

// AwaitsReady records whether the attempt leaves devices alone that have to get ready first, because other nodes may have ready ones.
// It returns for how long every attempt that came so far has done that.
func (p *Pod) AwaitsReady(awaits bool, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return lasting(&p.awaiting, awaits, now)
}

// lasting returns for how long something has been so at each call. since is when it began, the zero time if it is not so.
func lasting(since *time.Time, is bool, now time.Time) time.Duration {
	switch {
	case !is:
		*since = time.Time{}
		return 0
	case since.IsZero():
		*since = now
	}
	return now.Sub(*since)
}

// LookEverywhere makes the next attempt look at all nodes.
func (p *Pod) LookEverywhere() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.everywhere = true
}

// LooksEverywhere reports whether this attempt must look at all nodes. It returns true only once.
func (p *Pod) LooksEverywhere() (all bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	all, p.everywhere = p.everywhere, false
	return all
}

// Learn reports whether the pod's requests must be taken into account. It returns true only once.
func (p *Pod) Learn() (first bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	first, p.learnt = !p.learnt, true
	return first
}

// HelpedByAnySlice records that any change of slices may help, even if the task could not use the
// changed devices. It reports, only once, whether slices changed in this attempt.
func (p *Pod) HelpedByAnySlice() (happened bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	happened = p.sliceChanged && !p.anySlice
	p.anySlice = true
	return happened
}

// sliceHappened records that slices changed. It reports whether any change may help the pod: a request
// for all devices waits for each pool to be complete and for each device that matches to be free.
func (p *Pod) sliceHappened() (mayHelp bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.sliceChanged = true
	return p.anySlice || slices.ContainsFunc(p.missing, dra.WantsAll)
}

// reject records that the plugin has rejected the pod. It returns true if something happened meanwhile
// that may help, so that the pod must be tried again.
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

// Queue records that the pod is about to be queued for another attempt, whatever the result of the last
// one. Until that attempt begins, the pod may be waiting for this plugin.
func (p *Pod) Queue() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.active {
		p.try() // The attempt for its group ended before it came to this pod.
	}
	p.rejected, p.active, p.kept = true, false, false
}

// try counts an attempt. The caller must hold the mutex.
func (p *Pod) try() { p.tries, p.started = p.tries+1, time.Now() }

// KeepOut records that the pod was not queued after all: until Queue is called again, activating the
// pod has no effect.
func (p *Pod) KeepOut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.kept = true
}

// happened records an event that may help the pod. It returns true if the pod must be tried again,
// because this plugin rejected it.
func (p *Pod) happened() (again bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.rejected {
		p.missed = true
	}
	return p.rejected
}

// MissIfOpen records an event that may help the pod if it is not known yet what the pod needs. A
// rejected pod whose needs are unknown does not wait for devices.
func (p *Pod) MissIfOpen() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.rejected && !p.decided {
		p.missed = true
	}
}

// rest returns the remaining time of the pause after the last attempt.
func (p *Pod) rest(now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.restLocked(now)
}

// restLocked does the same as rest. The caller must hold the mutex. As in the scheduling queue, errors count by themselves.
func (p *Pod) restLocked(now time.Time) time.Duration {
	if p.errors > 0 {
		return Pause(p.errors) - now.Sub(p.since)
	}
	return Pause(p.attempts) - now.Sub(p.since)
}

// after calls the function after some time, unless a call is scheduled for an earlier time. An attempt that begins
// before that cancels it.
func (p *Pod) after(d time.Duration, wake func()) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	due := time.Now().Add(d)
	if p.timer != nil {
		if !due.Before(p.due) {
			return
		}
		p.timer.Stop()
	}
	p.due = due
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

// Latest returns the pod as it was at its latest attempt.
func (p *Pod) Latest() *v1.Pod {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.pod
}

// attemptsBegun returns the number of attempts, including one that is under way.
func (p *Pod) attemptsBegun() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.begun
}

// activated records that the pod was activated after the given number of attempts had begun.
func (p *Pod) activated(begun int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.active = p.rejected && p.begun == begun && !p.kept
}

// isDue reports whether a rejected pod is in its pause, and is to be woken at the end of it. A wake-up may also be scheduled for minutes later.
func (p *Pod) isDue(now time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	rest := p.restLocked(now)
	return p.rejected && p.timer != nil && rest > 0 && p.due.Sub(now) < rest+soon
}

// soon is more than the time between the calculation of a pause and of the time when its timer is due.
const soon = 100 * time.Millisecond

// rejectedBefore reports whether the pod waits since before a time and was not activated. A pod that was queued and not tried, as
// one of a group whose attempt ended before it came to this pod, waits since then.
func (p *Pod) rejectedBefore(then time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	since := p.started
	if p.counted && p.since.After(since) {
		since = p.since
	}
	return p.rejected && !p.active && since.Before(then)
}

// isActive reports whether the pod was activated and not tried again yet. It usually is about to be
// tried, and then finds the present state; but another plugin may keep it out of the queue.
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

// stopTimer stops a scheduled wake-up. The caller must hold the mutex.
func (p *Pod) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// extendedWant describes the needs of a waiting pod's extended resources.
type extendedWant struct {
	// claim is the claim to make on nodes where devices must back all of them.
	claim *resourceapi.ResourceClaim
	// leftOver is set if an earlier attempt has left a claim that may be in the way.
	leftOver bool
}

// WantsExtended records what the attempt found out about the pod's extended resources: the claim to
// make on nodes where devices must back all of them, and whether an earlier attempt has left a claim
// that may be in the way.
func (p *Pod) WantsExtended(claim *resourceapi.ResourceClaim, leftOver bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.extended = extendedWant{claim: claim, leftOver: leftOver}
}

// WantedExtended returns the arguments of WantsExtended in this attempt.
func (p *Pod) WantedExtended() (claim *resourceapi.ResourceClaim, leftOver bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.extended.claim, p.extended.leftOver
}
