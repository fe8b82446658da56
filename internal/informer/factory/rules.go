package factory

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/resource"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// SurvivingRules returns the factory with one difference: a handler of DeviceTaintRules that panics is called again
// until it succeeds.
//
// When a rule changes, kube-scheduler's tracker of ResourceSlices compares the devices of a slice in the informer's
// store with those of the last slice event that it has handled. If a driver adds devices at the same moment, the
// first list is longer than the second one, and an index out of range ends the process
// (resourceslice/tracker.syncSlice in Kubernetes 1.37). Another goroutine handles the event of the slice, so the same
// call succeeds a moment later.
func SurvivingRules(factory informers.SharedInformerFactory) informers.SharedInformerFactory {
	return survivingFactory{factory}
}

type survivingFactory struct {
	informers.SharedInformerFactory
}

// Resource implements informers.SharedInformerFactory.
func (f survivingFactory) Resource() resource.Interface {
	return survivingGroup{f.SharedInformerFactory.Resource()}
}

type survivingGroup struct{ resource.Interface }

// V1 implements resource.Interface.
func (g survivingGroup) V1() resourceinformers.Interface { return survivingVersion{g.Interface.V1()} }

type survivingVersion struct{ resourceinformers.Interface }

// DeviceTaintRules implements resourceinformers.Interface.
func (v survivingVersion) DeviceTaintRules() resourceinformers.TypedDeviceTaintRuleInformer {
	return survivingInformer{v.Interface.DeviceTaintRules()}
}

type survivingInformer struct {
	resourceinformers.TypedDeviceTaintRuleInformer
}

// Informer implements resourceinformers.DeviceTaintRuleInformer.
func (i survivingInformer) Informer() cache.SharedIndexInformer {
	return survivingIndexInformer{i.TypedDeviceTaintRuleInformer.Informer()}
}

// TypedInformer implements resourceinformers.TypedDeviceTaintRuleInformer.
func (i survivingInformer) TypedInformer() resourceinformers.DeviceTaintRuleIndexInformer {
	return cache.NewTypedSharedIndexInformer[*resourceapi.DeviceTaintRule](i.Informer())
}

type survivingIndexInformer struct{ cache.SharedIndexInformer }

// AddEventHandler implements cache.SharedInformer.
func (i survivingIndexInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(survivingHandler{handler})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i survivingIndexInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(survivingHandler{handler}, period)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i survivingIndexInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(survivingHandler{handler}, o)
}

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
