package compat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Two gangs of scheduler-plugins' PodGroups want three devices each, and there are four. One runs, the other one waits
// whole until that is gone.
func TestGangs(t *testing.T) {
	t.Parallel()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	s := newSpace(t, "gangs", 2)
	for node := range 2 {
		s.Devices(node, harness.Numbered(2)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	gang := func(name string) (pods []string) {
		s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: 3}})
		for i := range 3 {
			pod := s.Pod(fmt.Sprintf("%s-%d", name, i), builder.FromTemplate("one"))
			pod.Labels[v1alpha1.PodGroupLabel] = name
			s.Create(pod)
			pods = append(pods, pod.Name)
		}
		return pods
	}
	first := gang("first")
	s.Running(first...)
	second := gang("second")
	for _, pod := range second {
		s.Waiting(pod, "1 of 3 pods fit: 2 more devices of class "+s.Name, "group "+s.Name+"/first holds 3")
	}
	require.Equal(t, 3, s.Allocated())
	for _, pod := range first {
		s.DeletePod(pod)
	}
	s.Running(second...)
}
