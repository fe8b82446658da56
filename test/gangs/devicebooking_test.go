package gangs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/quartermaster-dra/quartermaster/internal/hold/booking"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// bookings is the endpoint of the space's bookings.
func (s *space) bookings() dynamic.ResourceInterface {
	return cluster.Resources(s.T, booking.Version.WithKind(booking.Kind), s.Name)
}

// newBooking returns a booking of all devices of a node for pods of an app, from now on for hours.
func (s *space) newBooking(app string, devices int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": booking.Version.String(), "kind": booking.Kind, "metadata": map[string]any{"name": app, "namespace": s.Name},
		"spec": map[string]any{
			"devices": map[string]any{"requests": []any{map[string]any{
				"name": "gpu", "exactly": map[string]any{"deviceClassName": s.Name, "count": int64(devices)},
			}}},
			"start": time.Now().UTC().Format(time.RFC3339), "duration": "6h", "gracePeriod": "3h",
			"podSelector": map[string]any{"matchLabels": map[string]any{builder.AppLabel: app}},
		},
	}}
}

// becomes waits until a booking has a condition with a reason.
func (s *space) becomes(name, kind, reason string) {
	s.T.Helper()
	s.Eventually("see the condition of booking "+name, func(ctx context.Context) error {
		found, err := s.bookings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status, is, message := harness.Condition(found, kind); status != "True" || is != reason {
			return fmt.Errorf("condition %s of booking %s is %q, reason %q: %s", kind, name, status, is, message)
		}
		return nil
	})
}

// TestBooking: small pods leave the devices of a booking alone and say why, also after a restart, the pod or the PodGroup that it is for gets
// them, and a booking that nobody uses ends by itself, says so, and lets the small pods in. Bookings that cannot be held say why.
//
// It is not parallel, and runs before the first test that starts the shared scheduler: the schedulers of other tests have other limits, and write
// the status of the bookings as well.
func TestBooking(t *testing.T) {
	const nodes, each = 3, 2
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.DeviceBookings, manifests.ApplyOptions{}))
	s := newSpace(t, "booking", true, nodes, each)
	scheduler := s.StartScheduler(harness.SchedulerOptions{PluginArgs: harness.HoldArgs("0s")})
	s.Create(builder.Claim("node", s.Want(each)).Template(), s.Pod("first", builder.FromTemplate("one")))
	s.Running("first") // Without an election, a scheduler begins with its first pod.
	s.DeletePod("first")
	s.Gone("first")
	forGroup := s.newBooking("group", each)
	spec := forGroup.Object["spec"].(map[string]any)
	delete(spec, "podSelector")
	spec["podGroupName"] = "gang"
	cluster.Apply(t, s.newBooking("train", each), s.newBooking("nobody", each), forGroup)
	s.refusesBookings()
	s.becomes("train", "Planned", "Held")
	s.becomes("group", "Planned", "Held")
	s.becomes("nobody", "Planned", "Held")
	s.becomes("nobody", "Active", "Started")

	require.NoError(t, scheduler.Stop())
	s.Create(s.Pod("small-0", builder.FromTemplate("one")), s.Pod("small-1", builder.FromTemplate("one")))
	require.NoError(t, scheduler.Restart(t.Context())) // It finds the small pods first.
	s.Waiting("small-0", "held for booking "+s.Name+"/")
	s.Waiting("small-1", "held for booking "+s.Name+"/")
	large := s.Pod("large", builder.FromTemplate("node"))
	large.Labels = map[string]string{builder.AppLabel: "train"}
	s.Create(large)
	s.Running("large")
	s.becomes("train", "Planned", "InUse")
	s.Waiting("small-0", "held for booking "+s.Name+"/")
	s.group("gang", each)
	s.Running(s.members("gang", 0, each)...)
	s.becomes("group", "Planned", "InUse")
	s.Waiting("small-0", "held for booking "+s.Name+"/nobody")
	s.saysWhyNot()

	_, err := s.bookings().Patch(t.Context(), "nobody", types.MergePatchType, []byte(`{"spec": {"gracePeriod": "1s"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.becomes("nobody", "Ended", "Unused")
	s.Running("small-0", "small-1")
	s.Eventually("see an event on the booking", func(ctx context.Context) error {
		events, err := cluster.Client.EventsV1().Events(s.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Kind == booking.Kind && event.Regarding.Name == "nobody" && event.Reason == "Unused" {
				return nil
			}
		}
		return fmt.Errorf("there is none among %d events", len(events.Items))
	})

	// With their definition, all bookings are gone while the scheduler runs.
	s.DeletePod("small-0")
	s.Gone("small-0")
	cluster.Apply(t, s.newBooking("again", 1))
	s.becomes("again", "Planned", "Held")
	s.Create(s.Pod("small-2", builder.FromTemplate("one")))
	s.Waiting("small-2", "held for booking "+s.Name+"/again")
	definitions := cluster.Resources(t, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "")
	require.NoError(t, definitions.Delete(t.Context(), "devicebookings."+booking.Version.Group, metav1.DeleteOptions{}))
	s.Running("small-2")
}

// saysWhyNot: what is wrong with a booking that the API server cannot tell is in its condition, and such bookings hold nothing.
func (s *space) saysWhyNot() {
	s.T.Helper()
	scarce := s.Name + "-scarce"
	s.Create(builder.Class(scarce), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "scarce"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(scarce + corev1.ResourceClaimsPerClass): resource.MustParse("1")}},
	})
	selector := func(expression string) func(map[string]any) {
		return func(spec map[string]any) {
			request := spec["devices"].(map[string]any)["requests"].([]any)[0].(map[string]any)["exactly"].(map[string]any)
			request["selectors"] = []any{map[string]any{"cel": map[string]any{"expression": expression}}}
		}
	}
	schedule := func(schedule, zone string) func(map[string]any) {
		return func(spec map[string]any) {
			delete(spec, "start")
			spec["schedule"], spec["timeZone"] = schedule, zone
		}
	}
	odd := map[string]struct {
		edit            func(spec map[string]any)
		reason, message string
	}{
		"never":      {schedule("0 0 30 2 *", "Europe/Berlin"), "InvalidSpec", "no time in the five years"},
		"words":      {schedule("every day", "Europe/Berlin"), "InvalidSpec", "cannot be parsed"},
		"nowhere":    {schedule("0 22 * * *", "Europe/Nowhere"), "InvalidSpec", "which is no time zone"},
		"later":      {schedule(time.Now().UTC().Add(-time.Hour).Format("4 15 2 1 *"), "Asia/Tokyo"), "NotYet", "24 hours before"},
		"impossible": {func(spec map[string]any) { spec["count"] = int64(booking.MostCopies) }, "CannotFit", "no nodes have the devices"},
		"last year": {func(spec map[string]any) {
			spec["start"], spec["count"] = "8999-12-31T23:59:59Z", int64(booking.MostCopies)
		}, "CannotFit", "no nodes have the devices"},
		"broken": {selector("device.("), "CannotFit", "Syntax error"},
		"scarce": {func(spec map[string]any) {
			request := spec["devices"].(map[string]any)["requests"].([]any)[0].(map[string]any)["exactly"].(map[string]any)
			request["deviceClassName"], request["count"] = scarce, int64(2)
		}, "ExceedsQuota", "allows 1 for the namespace"},
		"failing": {selector(`device.attributes["none.example.com"].missing`), "CannotFit", "no such key"},
	}
	for name, test := range odd {
		b := s.newBooking(strings.ReplaceAll(name, " ", "-"), 1)
		test.edit(b.Object["spec"].(map[string]any))
		cluster.Apply(s.T, b)
	}
	for name, test := range odd {
		s.Eventually("see why booking "+name+" is not held", func(ctx context.Context) error {
			found, err := s.bookings().Get(ctx, strings.ReplaceAll(name, " ", "-"), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if status, reason, message := harness.Condition(found, "Planned"); status == "True" || reason != test.reason || !strings.Contains(message, test.message) {
				return fmt.Errorf("condition Planned is %q, reason %q: %s", status, reason, message)
			}
			return nil
		})
	}
}

// refusesBookings: the API server refuses what can be told to be wrong.
func (s *space) refusesBookings() {
	s.T.Helper()
	for want, edit := range map[string]func(spec map[string]any){
		"set one of podSelector and podGroupName": func(spec map[string]any) { spec["podGroupName"] = "g" },
		"set start or schedule or both":           func(spec map[string]any) { delete(spec, "start") },
		"duration has to be from 1s to 8784h":     func(spec map[string]any) { spec["duration"] = "-1h" },
		"start has to be from 1990 to 8999":       func(spec map[string]any) { spec["start"] = "0001-01-01T00:00:00Z" },
		"gracePeriod has to be from 1s to 8784h":  func(spec map[string]any) { spec["gracePeriod"] = "9999h" },
		"timeZone is for a schedule":              func(spec map[string]any) { spec["timeZone"] = "Europe/Berlin" },
		"must have at most 16 items": func(spec map[string]any) {
			spec["podSelector"] = map[string]any{"matchExpressions": slices.Repeat([]any{map[string]any{"key": "a", "operator": "Exists"}}, 17)}
		},
		"should be less than or equal to 64": func(spec map[string]any) { spec["count"] = int64(65) },
		"spec.devices.requests":              func(spec map[string]any) { spec["devices"] = map[string]any{"requests": []any{}} },
		"set one of exactly and firstAvailable": func(spec map[string]any) {
			spec["devices"] = map[string]any{"requests": []any{map[string]any{"name": "gpu"}}}
		},
	} {
		bad := s.newBooking("bad", 1)
		edit(bad.Object["spec"].(map[string]any))
		_, err := s.bookings().Create(s.T.Context(), bad, metav1.CreateOptions{})
		require.ErrorContains(s.T, err, want)
	}
}
