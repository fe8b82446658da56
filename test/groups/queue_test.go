package groups

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestQueue: pods of two gangs came in turns, and there is room for those of one. It is the one that came first
// that gets it, whatever it is called.
func TestQueue(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// gangs are those of the pods, by turns.
		gangs [2]string
		// pause is between the first and the second pod. Times are in seconds.
		pause time.Duration
		first string
	}{
		"older":     {gangs: [2]string{"z", "a"}, pause: 1500 * time.Millisecond, first: "z"},
		"same-time": {gangs: [2]string{"a", "a2"}, first: "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
			s := &domainSpace{space: &space{cluster.NewSpace(t, "queue-"+name, "", 0)}}
			s.node("")
			const pods = 3 // Of each gang, and as many as there is room for.
			for _, gang := range test.gangs {
				s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gang}, Spec: v1alpha1.PodGroupSpec{MinMember: pods}})
			}
			var first, second []string
			for i := range 2 * pods {
				pod := s.queued(fmt.Sprintf("pod-%d", i), test.gangs[i%2])
				if pod.Labels[v1alpha1.PodGroupLabel] == test.first {
					first = append(first, pod.Name)
				} else {
					second = append(second, pod.Name)
				}
				if i == 0 {
					time.Sleep(test.pause)
				}
			}
			s.StartScheduler(harness.SchedulerOptions{Overlay: manifests.GangScheduling, FeatureGates: domainGates})
			s.Eventually("fill the node", func(context.Context) error {
				if bound := s.Bound(); bound != pods {
					return fmt.Errorf("%d pods are bound", bound)
				}
				return nil
			})
			for _, pod := range second {
				s.Waiting(pod, "Insufficient cpu")
			}
			s.Running(first...)
		})
	}
}

// queued creates a pod of a gang of which three fill a node with 32 CPUs.
func (s *domainSpace) queued(name, gang string) *corev1.Pod {
	s.T.Helper()
	pod := s.Pod(name, nil)
	pod.Labels[v1alpha1.PodGroupLabel] = gang
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10")}
	s.Create(pod)
	return pod
}
