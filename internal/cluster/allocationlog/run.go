package allocationlog

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Run follows the claims until the context is done. It must be called once.
func (o *Log) Run(ctx context.Context) {
	claims := o.client.ResourceV1().ResourceClaims(metav1.NamespaceAll)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return claims.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return claims.Watch(ctx, options)
		},
	}
	o.newReflector(cache.ToListWatcherWithWatchListSemantics(listWatch, o.client)).RunWithContext(ctx)
}

func (o *Log) newReflector(source cache.ListerWatcher) *cache.Reflector {
	return cache.NewReflectorWithOptions(source, &resourceapi.ResourceClaim{}, feed{o},
		cache.ReflectorOptions{Name: "order of allocations", Backoff: newBackoff()})
}

// newBackoff returns the back-off after failures. Pods wait for their binding meanwhile, so pauses
// are shorter than those of informers (up to 30 s).
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Cap: 3 * time.Second, Steps: 10, Factor: 2, Jitter: 1}
}
