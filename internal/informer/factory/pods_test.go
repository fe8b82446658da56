package factory

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// TestReplacedPods: whichever way a handler is added, it hears of a deletion and a creation if a pod was replaced unseen.
func TestReplacedPods(t *testing.T) {
	pod := func(uid types.UID, node string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: uid, ResourceVersion: "1"}, Spec: v1.PodSpec{NodeName: node}}
	}
	for name, add := range map[string]func(cache.SharedIndexInformer, cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error){
		"handler": cache.SharedIndexInformer.AddEventHandler,
		"handler with options": func(i cache.SharedIndexInformer, h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
			return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
		},
		"handler with resync period": func(i cache.SharedIndexInformer, h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
			return i.AddEventHandlerWithResyncPeriod(h, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				client := fake.NewClientset(pod("a", ""))
				factory := WithSafeHandlers(informers.NewSharedInformerFactory(client, 0))
				var told []string
				_, err := add(factory.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
					AddFunc: func(obj any) { told = append(told, fmt.Sprint("add ", obj.(*v1.Pod).UID)) },
					UpdateFunc: func(_, obj any) {
						told = append(told, fmt.Sprint("update ", obj.(*v1.Pod).UID, obj.(*v1.Pod).Spec.NodeName))
					},
					DeleteFunc: func(obj any) {
						missed := obj.(cache.DeletedFinalStateUnknown)
						told = append(told, fmt.Sprint("delete ", missed.Key, " ", missed.Obj.(*v1.Pod).UID))
					},
				})
				require.NoError(t, err)
				factory.Start(ctx.Done())
				factory.WaitForCacheSync(ctx.Done())
				synctest.Wait()
				for _, next := range []*v1.Pod{pod("a", "n1"), pod("b", "")} {
					_, err = client.CoreV1().Pods("d").Update(ctx, next, metav1.UpdateOptions{})
					require.NoError(t, err)
					synctest.Wait()
				}
				require.Equal(t, []string{"add a", "update an1", "delete d/p a", "add b"}, told)
				cancel()
				factory.Shutdown()
			})
		})
	}
}
