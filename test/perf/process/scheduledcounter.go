package main

import (
	"context"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/test/perf/workload"
)

// scheduledCounter counts pods that were bound to a node.
type scheduledCounter struct {
	wanted    int
	scheduled atomic.Int64
	// all receives the time at which as many as wanted are.
	all chan time.Time
}

// countScheduled watches the pods of the namespace until done is called.
func countScheduled(ctx context.Context, client kubernetes.Interface, wanted int) (_ *scheduledCounter, done func(), _ error) {
	counter := &scheduledCounter{wanted: wanted, all: make(chan time.Time, 1)}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(workload.Namespace))
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(pod any) { counter.changed(nil, pod) }, UpdateFunc: counter.changed}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(handler); err != nil {
		return nil, nil, err
	}
	ctx, done = context.WithCancel(ctx)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return counter, done, nil
}

func (c *scheduledCounter) changed(before, after any) {
	was, _ := before.(*v1.Pod)
	is := after.(*v1.Pod)
	if (was == nil || was.Spec.NodeName == "") && is.Spec.NodeName != "" && c.scheduled.Add(1) == int64(c.wanted) {
		c.all <- time.Now()
	}
}
