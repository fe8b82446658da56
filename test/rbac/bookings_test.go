package rbac

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// bookingRights is the name of the ClusterRoleBinding for bookings.
const bookingRights = "quartermaster-device-bookings"

// TestBookingsNeedTheirRights: without the right to read bookings, pods get devices as without bookings, and the log says once what is missing. With
// the rights of manifests/device-bookings, devices are held, and status and event say so.
func TestBookingsNeedTheirRights(t *testing.T) {
	harness.Long(t, "a missing resource is looked for every ten seconds")
	e := startEnvironment(t)
	e.prepare(t)
	ctx := t.Context()
	require.NoError(t, manifests.Apply(ctx, e.admin, manifests.DeviceBookings, manifests.ApplyOptions{}))
	require.NoError(t, e.client.RbacV1().ClusterRoleBindings().Delete(ctx, bookingRights, metav1.DeleteOptions{}))
	client, err := dynamic.NewForConfig(e.admin)
	require.NoError(t, err)
	bookings := client.Resource(booking.Version.WithResource("devicebookings")).Namespace(namespace)
	for name, count := range map[string]int64{"one": 1, "many": 32} {
		create := func(ctx context.Context) error {
			_, err := bookings.Create(ctx, newBooking(name, count), metav1.CreateOptions{})
			return err
		}
		require.NoError(t, eventually(ctx, create)) // Once the API server has the new resource.
	}
	require.NoError(t, eventually(ctx, func(context.Context) error {
		if !e.front.hasRefused("list devicebookings." + booking.Version.Group) {
			return fmt.Errorf("the scheduler did not try to list bookings")
		}
		return nil
	}))
	require.NoError(t, eventually(ctx, podWithDevice(t, e, "without-rights")))

	require.NoError(t, manifests.Apply(ctx, e.admin, manifests.DeviceBookings, manifests.ApplyOptions{}))
	for name, want := range map[string]string{"one": "Held", "many": "CannotFit"} {
		require.NoError(t, eventually(ctx, func(ctx context.Context) error {
			found, err := bookings.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if _, reason, message := harness.Condition(found, "Planned"); reason != want {
				return fmt.Errorf("the reason of booking %s is %q: %s", name, reason, message)
			}
			return nil
		}))
	}
	require.NoError(t, eventually(ctx, func(ctx context.Context) error {
		events, err := e.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Kind == booking.Kind && event.Regarding.Name == "many" && event.Reason == "CannotFit" {
				return nil
			}
		}
		return fmt.Errorf("no event says that booking many has no devices")
	}))
	require.NoError(t, eventually(ctx, podWithDevice(t, e, "with-rights")))
	lines, err := e.scheduler.LogLines("may not read DeviceBookings")
	require.NoError(t, err)
	require.Len(t, lines, 1)
}

// newBooking returns a booking of devices for pods that do not exist.
func newBooking(name string, devices int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": booking.Version.String(), "kind": booking.Kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"devices": map[string]any{"requests": []any{map[string]any{
				"name": "device", "exactly": map[string]any{"deviceClassName": deviceClass, "count": devices},
			}}},
			"start": time.Now().UTC().Format(time.RFC3339), "duration": "1h",
			"podSelector": map[string]any{"matchLabels": map[string]any{"app": "none"}},
		},
	}}
}
