package factory

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// survivingHandler calls a handler of DeviceTaintRules that panics again until it succeeds.
//
// When a rule changes, kube-scheduler's tracker of ResourceSlices compares the devices of a slice in the informer's
// store with those of the last slice event that it has handled. If a driver adds devices at the same moment, the
// first list is longer than the second one, and an index out of range ends the process
// (resourceslice/tracker.syncSlice in Kubernetes 1.37). Another goroutine handles the event of the slice, so the same
// call succeeds a moment later.
type survivingHandler struct{ cache.ResourceEventHandler }

// OnAdd implements cache.ResourceEventHandler.
func (h survivingHandler) OnAdd(obj any, initial bool) {
	survive(func() { h.ResourceEventHandler.OnAdd(obj, initial) })
}

// OnUpdate implements cache.ResourceEventHandler.
func (h survivingHandler) OnUpdate(before, after any) {
	survive(func() { h.ResourceEventHandler.OnUpdate(before, after) })
}

// OnDelete implements cache.ResourceEventHandler.
func (h survivingHandler) OnDelete(obj any) {
	survive(func() { h.ResourceEventHandler.OnDelete(obj) })
}

const (
	// survivalPause is the first pause in which the handler of slices can catch up. Each pause is twice as long as the one before,
	// up to longestSurvivalPause.
	survivalPause        = 10 * time.Millisecond
	longestSurvivalPause = time.Second
	// survivalTime is the time after which a panic ends the process. The handler of slices is that far behind at most: after a
	// list, it handles tens of thousands of slices one after the other.
	survivalTime = 10 * time.Minute
)

// survive calls the handler until it returns.
func survive(handle func()) {
	pause := survivalPause
	for begun := time.Now(); time.Since(begun) < survivalTime; pause = min(2*pause, longestSurvivalPause) {
		failed := recovered(handle)
		if failed == nil {
			return
		}
		klog.Background().V(3).Info("Handling an event of a DeviceTaintRule once more", "err", failed)
		time.Sleep(pause)
	}
	handle()
}

// recovered calls the handler, and returns its panic as an error.
func recovered(handle func()) (failed error) {
	defer func() {
		if r := recover(); r != nil {
			failed = fmt.Errorf("panic: %v", r)
		}
	}()
	handle()
	return nil
}
