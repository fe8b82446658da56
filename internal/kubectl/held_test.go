package kubectl

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// TestHeld: the overview and explain repeat the last event about what is held for pods that wait, and for their groups.
func TestHeld(t *testing.T) {
	o := rack()
	for _, name := range []string{"first", "second", "alone", "again"} {
		pod := waiting(&o, name)
		pod.UID = types.UID(name)
		if name == "first" || name == "second" {
			pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "train"}
		}
	}
	client := server(o, "", "")
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, event := range []struct{ pod, uid, reason, text string }{
		{"first", "first", devicesHeld, "1 device on node-1 is held"}, {"first", "first", devicesHeld, "2 devices on node-2 are held"},
		{"first", "first", "FailedScheduling", "no"}, {"again", "before", devicesHeld, "for a pod that is gone"},
		{"nobody", "nobody", devicesHeld, "for a pod that is gone as well"},
	} {
		require.NoError(t, client.Tracker().Add(&v1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: event.pod + string(rune('a'+i))}, Reason: event.reason, Message: event.text,
			InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: event.pod, UID: types.UID(event.uid)},
			EventTime:      metav1.MicroTime{Time: begin.Add(time.Duration(i) * time.Minute)},
		}))
	}
	out, _, err := ask(t, client)
	require.NoError(t, err)
	require.Contains(t, out, "Devices are held for 1 pod:\n  default/first: 2 devices on node-2 are held.\n")
	require.NotContains(t, out, "gone")
	for name, held := range map[string]bool{"first": true, "second": true, "alone": false, "again": false} {
		out, _, err := ask(t, client, "explain", name)
		require.NoError(t, err)
		if held {
			require.Contains(t, out, "The scheduler holds devices: 2 devices on node-2 are held.", name)
		} else {
			require.NotContains(t, out, "held", name)
		}
	}

	client.PrependReactor("list", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", errors.New("no"))
	})
	out, _, err = ask(t, client)
	require.NoError(t, err)
	require.NotContains(t, out, "held")
}
