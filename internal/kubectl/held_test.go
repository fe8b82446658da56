package kubectl

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// TestHeld: the overview and explain repeat what the scheduler says about devices that are held for pods that wait, and for their groups.
func TestHeld(t *testing.T) {
	o := rack()
	for _, name := range []string{"first", "second", "alone", "before", "bound"} {
		pod := waiting(&o, name)
		pod.UID = types.UID(name)
		if name == "first" || name == "second" {
			pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "train"}
		}
		held := v1.PodCondition{Type: dra.DevicesHeld, Status: v1.ConditionTrue, Message: "2 devices on node-2 are held"}
		switch name {
		case "first":
		case "before":
			held.Status = v1.ConditionFalse
		case "bound":
			pod.Spec.NodeName = "node-1"
		default:
			continue
		}
		pod.Status.Conditions = append(pod.Status.Conditions, held)
	}
	client := server(o, "", "")
	out, _, err := ask(t, client)
	require.NoError(t, err)
	require.Contains(t, out, "Devices are held for 1 pod:\n  default/first: 2 devices on node-2 are held.\n")
	for name, held := range map[string]bool{"first": true, "second": true, "alone": false, "before": false} {
		out, _, err := ask(t, client, "explain", name)
		require.NoError(t, err)
		if held {
			require.Contains(t, out, "The scheduler holds devices: 2 devices on node-2 are held.", name)
		} else {
			require.NotContains(t, out, "held", name)
		}
	}
}
