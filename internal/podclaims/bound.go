package podclaims

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
)

// IsBound asks the server whether the pod is on a node. An attempt to schedule the pod can fail
// although it is bound: the answer to the binding was lost, or another scheduler had bound the pod
// before and the informer did not know yet. Such a pod runs and needs its claims, so nothing may be
// taken away from it.
//
// "No" is not final: the server may carry out a binding whose connection was cut even after a later
// read, and nothing could stop it. The pod is then on a node without its claims, where the kubelet
// does not start it.
//
// IsBound continues when ctx is cancelled, like all operations that undo something.
func IsBound(ctx context.Context, client kubernetes.Interface, pod *v1.Pod) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimwriter.UndoTimeout)
	defer cancel()
	found, err := Live(ctx, client, pod.Namespace, pod.Name)
	if err != nil {
		return false, fmt.Errorf("find out whether pod %s/%s has been bound: %w", pod.Namespace, pod.Name, err)
	}
	return found != nil && found.UID == pod.UID && found.Spec.NodeName != "", nil
}

// Live returns the pod of that name as the server has it, nil if there is none.
func Live(ctx context.Context, client kubernetes.Interface, namespace, name string) (*v1.Pod, error) {
	// A list of one pod needs no other permission than the informer of pods.
	found, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
	})
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		if found.Items[i].Name == name {
			return &found.Items[i], nil
		}
	}
	return nil, nil
}

// IsMemberBound is IsBound for the pods that share a claim of their group: it asks the server
// whether any of them is on a node.
func IsMemberBound(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, claim string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimwriter.UndoTimeout)
	defer cancel()
	return podgroup.AnyBound(ctx, client, pod, claim)
}
