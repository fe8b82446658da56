package kubectl

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// heldOutput describes the devices that the scheduler holds for a pod that waits, or for its group.
type heldOutput struct {
	Pod   string      `json:"pod"`
	Since metav1.Time `json:"since"`
	Text  string      `json:"text"`
	pod   *v1.Pod
}

// heldDevices returns for which pods devices are held. Of a group, one pod says it.
func heldDevices(s *whatif.Snapshot) (all []heldOutput) {
	for _, pod := range s.Pods() {
		held := dra.HeldFor(pod)
		if held != nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !podutil.IsPodTerminal(pod) {
			all = append(all, heldOutput{whatif.Key(pod), held.LastTransitionTime, held.Message, pod})
		}
	}
	return all
}

// heldFor returns what is held for a pod or its group, "" for nothing.
func heldFor(s *whatif.Snapshot, pod *v1.Pod) string {
	group := groupOf(pod)
	for _, held := range heldDevices(s) {
		if held.pod.UID == pod.UID || group != "" && held.pod.Namespace == pod.Namespace && groupOf(held.pod) == group {
			return held.Text
		}
	}
	return ""
}

// groupOf returns the pod's PodGroup, of Kubernetes or of scheduler-plugins, "" if it is in none.
func groupOf(pod *v1.Pod) string {
	return cmp.Or(dra.PodGroupName(pod), pod.Labels[v1alpha1.PodGroupLabel])
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
