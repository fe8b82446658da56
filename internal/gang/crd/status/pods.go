package status

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
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
	pods := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{
		byGroup: func(obj any) ([]string, error) { return []string{crd.KeyOf(obj.(*v1.Pod))}, nil },
	}, func(options *metav1.ListOptions) { options.LabelSelector = v1alpha1.PodGroupLabel })
	_ = pods.SetTransform(trim) // It fails only if the informer runs.
	return pods
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
