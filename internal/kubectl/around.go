package kubectl

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/api"
)

// around holds objects related to one pod that only explain reads.
type around struct {
	events known[[]v1.Event]
	quotas known[[]v1.ResourceQuota]
	// gang is the minCount of the pod's PodGroup, 0 if the pod is in no gang.
	gang known[int32]
}

// readAround reads the objects that the pod's explanation needs. For a dump it reads nothing.
func (o *options) readAround(ctx context.Context, pod *v1.Pod, claims bool) (around, error) {
	var a around
	if o.from != "" || pod.UID == "" {
		return a, nil
	}
	source, err := o.source(ctx)
	if err != nil {
		return a, err
	}
	client := source.Client()
	if claims {
		a.events = knownOf(eventsOf(ctx, client, pod))
		quotas, err := client.CoreV1().ResourceQuotas(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			a.quotas = knownOf(quotas.Items, nil)
		} else {
			a.quotas = knownOf[[]v1.ResourceQuota](nil, err)
		}
	}
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		a.gang = knownOf(gangOf(ctx, client, pod.Namespace, *group.PodGroupName))
	}
	return a, nil
}

func eventsOf(ctx context.Context, client kubernetes.Interface, pod *v1.Pod) ([]v1.Event, error) {
	of := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": pod.Name, "involvedObject.namespace": pod.Namespace}
	events, err := client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: of.String()})
	if err != nil {
		return nil, err
	}
	return events.Items, nil
}

// gangOf reads the minCount of a PodGroup, in the version of its API that the server has.
func gangOf(ctx context.Context, client kubernetes.Interface, namespace, name string) (int32, error) {
	served, err := api.WithPodGroups(client)
	if err != nil {
		return 0, err
	}
	group, err := served.SchedulingV1beta1().PodGroups(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if gang := group.Spec.SchedulingPolicy.Gang; gang != nil {
		return gang.MinCount, nil
	}
	return 0, nil
}

// readError says why something was not read.
func readError(err error) string {
	if apierrors.IsForbidden(err) {
		return "you may not read them"
	}
	return err.Error()
}
