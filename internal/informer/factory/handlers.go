package factory

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/resource"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// WithSafeHandlers returns the factory with two differences, without which an event can end kube-scheduler: handlers of pods hear of a deletion and
// a creation where a pod was replaced (see replacedHandler), and a handler of DeviceTaintRules that panics is called again until it succeeds
// (see survivingHandler).
func WithSafeHandlers(factory informers.SharedInformerFactory) informers.SharedInformerFactory {
	return safeFactory{factory}
}

type safeFactory struct {
	informers.SharedInformerFactory
}

// Core implements informers.SharedInformerFactory.
func (f safeFactory) Core() core.Interface { return safeCore{f.SharedInformerFactory.Core()} }

// Resource implements informers.SharedInformerFactory.
func (f safeFactory) Resource() resource.Interface {
	return safeResource{f.SharedInformerFactory.Resource()}
}

type safeCore struct{ core.Interface }

// V1 implements core.Interface.
func (g safeCore) V1() coreinformers.Interface { return safeCoreV1{g.Interface.V1()} }

type safeCoreV1 struct{ coreinformers.Interface }

// Pods implements coreinformers.Interface.
func (v safeCoreV1) Pods() coreinformers.TypedPodInformer { return safePods{v.Interface.Pods()} }

type safePods struct {
	coreinformers.TypedPodInformer
}

// Informer implements coreinformers.PodInformer.
func (i safePods) Informer() cache.SharedIndexInformer {
	return safeInformer{i.TypedPodInformer.Informer(), func(h cache.ResourceEventHandler) cache.ResourceEventHandler { return replacedHandler{h} }}
}

// TypedInformer implements coreinformers.TypedPodInformer.
func (i safePods) TypedInformer() coreinformers.PodIndexInformer {
	return cache.NewTypedSharedIndexInformer[*v1.Pod](i.Informer())
}

type safeResource struct{ resource.Interface }

// V1 implements resource.Interface.
func (g safeResource) V1() resourceinformers.Interface { return safeResourceV1{g.Interface.V1()} }

type safeResourceV1 struct{ resourceinformers.Interface }

// DeviceTaintRules implements resourceinformers.Interface.
func (v safeResourceV1) DeviceTaintRules() resourceinformers.TypedDeviceTaintRuleInformer {
	return safeRules{v.Interface.DeviceTaintRules()}
}

type safeRules struct {
	resourceinformers.TypedDeviceTaintRuleInformer
}

// Informer implements resourceinformers.DeviceTaintRuleInformer.
func (i safeRules) Informer() cache.SharedIndexInformer {
	return safeInformer{i.TypedDeviceTaintRuleInformer.Informer(), func(h cache.ResourceEventHandler) cache.ResourceEventHandler { return survivingHandler{h} }}
}

// TypedInformer implements resourceinformers.TypedDeviceTaintRuleInformer.
func (i safeRules) TypedInformer() resourceinformers.DeviceTaintRuleIndexInformer {
	return cache.NewTypedSharedIndexInformer[*resourceapi.DeviceTaintRule](i.Informer())
}

// safeInformer adds its handlers within others.
type safeInformer struct {
	cache.SharedIndexInformer
	within func(cache.ResourceEventHandler) cache.ResourceEventHandler
}

// AddEventHandler implements cache.SharedInformer.
func (i safeInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.within(handler))
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i safeInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.within(handler), period)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i safeInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.within(handler), o)
}
