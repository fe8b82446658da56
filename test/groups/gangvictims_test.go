package groups

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gangOfPlugins creates a PodGroup of scheduler-plugins and its pods, which have a device each.
func (s *space) gangOfPlugins(name string, minMember int32, pods int, edit func(i int, pod *corev1.Pod)) (names []string) {
	s.T.Helper()
	require.NoError(s.T, manifests.Apply(s.T.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: minMember}})
	for i := range pods {
		pod := s.Pod(fmt.Sprintf("%s-%d", name, i), builder.FromTemplate("one"))
		metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.PodGroupLabel, name)
		edit(i, pod)
		s.Create(pod)
		names = append(names, pod.Name)
	}
	return names
}

// TestGangOfPluginsIsVictim: a PodGroup of the API needs a device, and pods of a PodGroup of scheduler-plugins have them all.
// These go together, unless their gang can do without some.
func TestGangOfPluginsIsVictim(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		minMember int32
		gone      int
	}{
		"whole": {4, 4},
		"spare": {3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster.PriorityClass(t, important, 1000)
			s := newSpace(t, "of-plugins-"+name, 2, 2)
			s.Create(builder.Claim("one", s.Want(1)).Template())
			low := s.gangOfPlugins("low", test.minMember, 4, func(int, *corev1.Pod) {})
			s.Running(low...)
			s.Create(ofImportance(group("gang", 1)))
			s.Running(s.createImportantMembers("gang", 1, builder.FromTemplate("one"))...)
			s.Eventually(fmt.Sprintf("%d pods go", test.gone), func(context.Context) error {
				if gone := s.evicted(low); gone != test.gone {
					return fmt.Errorf("%d are gone", gone)
				}
				return nil
			})
		})
	}
}

// TestGangOfPluginsIsNeeded: some pods of the gang are as important as the PodGroup of the API, and need the others. None
// is evicted, but a pod by itself is.
func TestGangOfPluginsIsNeeded(t *testing.T) {
	t.Parallel()
	cluster.PriorityClass(t, important, 1000)
	s := newSpace(t, "of-plugins-needed", 2, 2)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	single := s.Pod("single", builder.FromTemplate("one"))
	s.Create(single)
	mixed := s.gangOfPlugins("mixed", 3, 3, func(i int, pod *corev1.Pod) {
		if i == 0 {
			pod.Spec.PriorityClassName = important
		}
	})
	s.Running(append([]string{single.Name}, mixed...)...)
	s.Create(ofImportance(group("two", 2)))
	for _, pod := range s.createImportantMembers("two", 2, builder.FromTemplate("one")) {
		s.Waiting(pod)
	}
	require.Zero(t, s.evicted(append(mixed, single.Name)), "nobody goes for a group that would not fit even then")
	s.Create(ofImportance(group("one", 1)))
	s.Running(s.createImportantMembers("one", 1, builder.FromTemplate("one"))...)
	require.Zero(t, s.evicted(mixed))
	require.Equal(t, 1, s.evicted([]string{single.Name}))
}
