package kubectl

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// devicesHeld is the reason of the scheduler's events about devices that it holds for a pod that has waited, or for its group. It
// repeats them before the API server forgets them.
const devicesHeld = "DevicesHeld"

// heldOutput is the scheduler's last word about the devices that it holds for a pod that still waits, or for its group.
type heldOutput struct {
	Pod  string      `json:"pod"`
	Told metav1.Time `json:"told"`
	Text string      `json:"text"`
	pod  *v1.Pod
}

// heldDevices returns for which pods of a namespace devices are held, of all namespaces for "". From a dump, and without the right to list
// events, it returns none.
func (o *options) heldDevices(ctx context.Context, s *whatif.Snapshot, namespace string) ([]heldOutput, error) {
	if o.from != "" {
		return nil, nil
	}
	source, err := o.source(ctx)
	if err != nil {
		return nil, err
	}
	events, err := source.Client().CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("reason", devicesHeld).String()})
	if err != nil {
		return nil, nil // The rest of the answer does not depend on it.
	}
	last := make(map[string]heldOutput)
	for i := range events.Items {
		event := &events.Items[i]
		pod := s.Pod(event.InvolvedObject.Namespace, event.InvolvedObject.Name)
		if event.Reason != devicesHeld || pod == nil || pod.UID != event.InvolvedObject.UID || pod.Spec.NodeName != "" {
			continue
		}
		key, told := whatif.Key(pod), toldAt(event)
		if before, known := last[key]; !known || before.Told.Time.Before(told) {
			last[key] = heldOutput{key, metav1.Time{Time: told}, event.Message, pod}
		}
	}
	all := make([]heldOutput, 0, len(last))
	for _, held := range last {
		all = append(all, held)
	}
	slices.SortFunc(all, func(a, b heldOutput) int { return cmp.Compare(a.Pod, b.Pod) })
	return all, nil
}

// isHeldFor reports whether devices that are held for a pod are held for another one as well: both are of the same group.
func isHeldFor(holder, pod *v1.Pod) bool {
	group := groupOf(pod)
	return holder.UID == pod.UID || group != "" && holder.Namespace == pod.Namespace && groupOf(holder) == group
}

// groupOf returns the pod's PodGroup, of Kubernetes or of scheduler-plugins, "" if it is in none.
func groupOf(pod *v1.Pod) string {
	return cmp.Or(dra.PodGroupName(pod), pod.Labels[v1alpha1.PodGroupLabel])
}

// toldAt returns when an event was reported last.
func toldAt(event *v1.Event) time.Time {
	latest := event.EventTime.Time
	if event.LastTimestamp.After(latest) {
		latest = event.LastTimestamp.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(latest) {
		latest = event.Series.LastObservedTime.Time
	}
	return latest
}

// printHeld prints for which pods devices are held.
func (o *options) printHeld(all []heldOutput) {
	if len(all) == 0 {
		return
	}
	o.say("")
	o.heading("Devices are held for %s:", plural(len(all), "pod"))
	for _, held := range all {
		o.wrapped("  ", held.Pod+": "+held.Text+".")
	}
}
