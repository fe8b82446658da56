package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
)

// TestGroupsThatAreOver: pods that have succeeded count for their own run of the job, and not for the next one.
func TestGroupsThatAreOver(t *testing.T) {
	t.Parallel()
	for phase, succeeded := range map[v1alpha1.PodGroupPhase]int{
		"": 3, v1alpha1.PodGroupRunning: 3, v1alpha1.PodGroupScheduling: 3, v1alpha1.PodGroupFinished: 0, v1alpha1.PodGroupFailed: 0,
	} {
		group, err := groupOf(&v1alpha1.PodGroup{Status: v1alpha1.PodGroupStatus{Phase: phase, Succeeded: 3}})
		require.NoError(t, err)
		require.Equal(t, succeeded, group.Succeeded, phase)
	}
}

// TestGroupOf: the fields of a PodGroup are read, and errors in it are reported.
func TestGroupOf(t *testing.T) {
	t.Parallel()
	from := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "uid", Annotations: map[string]string{domain.RequiredAnnotation: "label=rack"}},
		Spec:       v1alpha1.PodGroupSpec{MinMember: 4, ScheduleTimeoutSeconds: ptr.To[int32](7)},
	}
	group, err := groupOf(from)
	require.NoError(t, err)
	require.Equal(t, &Group{
		Name: "ns/g", UID: "uid", MinMember: 4, Timeout: 7 * time.Second, Wish: domain.Wish{Key: domain.Key{Label: "rack"}, Required: true},
	}, group)
	from.Annotations[domain.RequiredAnnotation] = "rack"
	_, err = groupOf(from)
	require.ErrorContains(t, err, "group ns/g: annotation")
}
