package quartermaster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// newClaims wakes the pods that wait for a claim to be created. It does so by itself
// and not through the scheduling queue, which would ask about each new claim for each
// waiting pod: of a thousand pods created at once, all wait while a thousand claims are
// made for them.
//
// No pod is missed. Whether its claims exist is decided by the informers' stores, which
// are up to date before any handler hears of an event. Of the two events that complete a
// claim, its creation and its name in the status of the pod, the later one finds both.
type newClaims struct {
	pl *Quartermaster
	// latest is when the last claim was created, as seen here; in nanoseconds.
	latest atomic.Int64
}

func (pl *Quartermaster) watchNewClaims(ctx context.Context, informer cache.SharedIndexInformer) (*newClaims, error) {
	n := &newClaims{pl: pl}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if claim, ok := obj.(*resourceapi.ResourceClaim); ok {
			n.created(ctx, claim)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("watch for new claims: %w", err)
	}
	return n, nil
}

func (n *newClaims) created(ctx context.Context, claim *resourceapi.ResourceClaim) {
	n.latest.Store(time.Now().UnixNano())
	pods, err := n.pl.podsUsing(claim.Namespace, claim.Name)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot wake the pods that wait for a new claim", "claim", klog.KObj(claim))
		return
	}
	waiting := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			waiting[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(waiting) > 0 {
		n.pl.handle.Activate(klog.FromContext(ctx), waiting)
	}
}

// within reports whether a claim was created in the given time before now.
func (n *newClaims) within(d time.Duration) bool {
	return time.Since(time.Unix(0, n.latest.Load())) < d
}
