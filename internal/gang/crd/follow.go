package crd

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// follow keeps the store in sync with the server until the resource or the context is gone. When it returns, listeners
// are not called any more. If the resource is gone, they have been told that each PodGroup is gone.
func (g *Groups) follow(ctx context.Context) {
	begin := func(source cache.SharedIndexInformer) {
		_, _ = informer.AfterEvents(source, func(key string) { g.listeners.tell(key, groupIn(source.GetStore(), key)) }) // It has not run yet.
		g.note(nil)
		g.use(source.GetStore(), source.HasSynced)
	}
	if g.resource.Follow(ctx, toEntry, begin, g.observe) {
		klog.FromContext(ctx).Info("The CustomResourceDefinition of PodGroups is gone. Pods that name a PodGroup wait until it is installed again")
		g.note(ErrNotInstalled)
		g.use(nil, nil)
		g.listeners.tellAll(nil) // The stopped informer may have dropped pending events.
	}
}

// groupIn returns the PodGroup in a store, nil if it is missing or unreadable.
func groupIn(store cache.Store, key string) *v1alpha1.PodGroup {
	if e := informer.Object[entry](store, key); e != nil {
		return e.group
	}
	return nil
}

// observe notes the outcome of a request.
func (g *Groups) observe(ctx context.Context, err error) {
	if apierrors.IsInvalid(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // An older server cannot stream the list, or the watch was interrupted for long: the next request tells more.
	}
	if g.note(err) && !apierrors.IsNotFound(err) { // follow logs that it is gone.
		klog.FromContext(ctx).Info("Cannot read PodGroups; trying again", "err", err)
	}
}
