package status

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

// byGroup is the index of pods by "namespace/name" of their PodGroup.
const byGroup = "podGroup"

// newPodInformer returns an informer of the pods that name a PodGroup. It stores only the fields that the status
// depends on.
func newPodInformer(client kubernetes.Interface) cache.SharedIndexInformer {
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = v1alpha1.PodGroupLabel
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = v1alpha1.PodGroupLabel
			return pods.Watch(ctx, options)
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client), &v1.Pod{}, 0, cache.Indexers{
		byGroup: func(obj any) ([]string, error) { return []string{crd.KeyOf(obj.(*v1.Pod))}, nil },
	})
	_ = informer.SetTransform(trim) // It fails only if the informer runs.
	return informer
}

// trim is a cache.TransformFunc.
func trim(obj any) (any, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return obj, nil
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
			Labels: map[string]string{v1alpha1.PodGroupLabel: crd.NameOf(pod)},
		},
		Status: v1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}

// podOf returns the pod of an event, nil if it names no PodGroup.
func podOf(obj any) *v1.Pod {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, ok := obj.(*v1.Pod)
	if !ok || crd.KeyOf(pod) == "" {
		return nil
	}
	return pod
}

// podsOf returns the pods of a group.
func (c *Controller) podsOf(key string) ([]*v1.Pod, error) {
	objects, err := c.pods.GetIndexer().ByIndex(byGroup, key)
	if err != nil {
		return nil, err
	}
	pods := make([]*v1.Pod, len(objects))
	for i, obj := range objects {
		pods[i] = obj.(*v1.Pod)
	}
	return pods, nil
}
