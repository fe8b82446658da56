package groups

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestBookingForGroup: a claim of a PodGroup gets the devices that are booked for the group, and single pods do not.
func TestBookingForGroup(t *testing.T) {
	t.Parallel()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.DeviceBookings, manifests.ApplyOptions{}))
	s := newOwnSpace(t, "booking", 2, 2)
	s.startScheduler(harness.SchedulerOptions{})
	s.Create(builder.Claim("one", s.Want(1)).Template(), builder.Claim("shared", s.Want(2)).Obj())
	s.Create(s.Pod("first", builder.FromTemplate("one")))
	s.Running("first")
	cluster.Apply(t, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": booking.Version.String(), "kind": booking.Kind, "metadata": map[string]any{"name": "b", "namespace": s.Name},
		"spec": map[string]any{
			"devices": map[string]any{"requests": []any{map[string]any{
				"name": "gpu", "exactly": map[string]any{"deviceClassName": s.Name, "count": int64(2)},
			}}},
			"start": time.Now().UTC().Format(time.RFC3339), "duration": "1h", "podGroupName": "gang",
		},
	}})
	becomes := func(want string) {
		t.Helper()
		s.Eventually("see the condition of the booking", func(ctx context.Context) error {
			found, err := cluster.Resources(t, booking.Version.WithKind(booking.Kind), s.Name).Get(ctx, "b", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if _, reason, message := harness.Condition(found, "Planned"); reason != want {
				return fmt.Errorf("the reason of condition Planned is %q: %s", reason, message)
			}
			return nil
		})
	}
	becomes("Held")
	time.Sleep(2 * time.Second) // Another scheduler of these tests may have written that, and this one plans each second.
	s.Create(s.Pod("second", builder.FromTemplate("one")))
	s.Running("second")
	s.Create(s.Pod("third", builder.FromTemplate("one")))
	s.Waiting("third", "held for booking "+s.Name+"/b")
	s.Create(group("gang", 2, builder.Uses("shared")...))
	s.Running(s.createMembers("gang", 2, builder.Uses("shared"))...)
	becomes("InUse")
	require.Equal(t, []string{"podgroups/gang"}, s.consumers("shared"))
	s.DeletePod("first")
	s.Running("third")
}
