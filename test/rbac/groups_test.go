package rbac

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groupsGate is the feature gate without which there are no groups of pods, and no need
// for rights on them. It is off by default.
const groupsGate = "GenericWorkload"

// groupsAPI is the version of the API that has PodGroups, off by default as well.
const groupsAPI = "scheduling.k8s.io/v1beta1"

// scheduledGroup is a group of one pod that is told that it fits.
func scheduledGroup(t *testing.T, e *environment, name string) func(context.Context) error {
	groups := e.client.SchedulingV1beta1().PodGroups(namespace)
	_, err := groups.Create(t.Context(), &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: schedulingapi.PodGroupSpec{
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Basic: &schedulingapi.BasicSchedulingPolicy{}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	e.createPod(t, name, func(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} })
	return func(ctx context.Context) error {
		group, err := groups.Get(ctx, name, metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionTrue(group.Status.Conditions, schedulingapi.PodGroupInitiallyScheduled) {
			err = fmt.Errorf("pod group %s is not told that it fits: %v", name, group.Status.Conditions)
		}
		return err
	}
}
