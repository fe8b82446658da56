package kubectl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// waitsFor lists what a pod without a node waits for other than devices: until then, a node that fits does not help.
func waitsFor(s *whatif.Snapshot, pod *v1.Pod, a *around) []string {
	var all []string
	add := func(text string) {
		if text != "" {
			all = append(all, text)
		}
	}
	if pod.DeletionTimestamp != nil {
		add("it is being deleted")
	}
	add(gates(pod))
	add(noScheduler(s, pod))
	add(claimsNotMade(s, pod, a))
	add(gang(s, pod, a))
	for _, claim := range s.ClaimsOf(pod) {
		if pending := binding.Pending(claim); pending != "" {
			add(fmt.Sprintf("claim %s is allocated, but its devices are not ready (binding conditions): %s. Their driver has to say that they are",
				claim.Name, pending))
		}
	}
	return all
}

func gates(pod *v1.Pod) string {
	if len(pod.Spec.SchedulingGates) == 0 {
		return ""
	}
	var names []string
	for _, gate := range pod.Spec.SchedulingGates {
		names = append(names, gate.Name)
	}
	return fmt.Sprintf("its scheduling gates (%s) have to be removed; no scheduler looks at it before", strings.Join(names, ", "))
}

// noScheduler says that no scheduler has tried a pod, and which scheduler it names.
func noScheduler(s *whatif.Snapshot, pod *v1.Pod) string {
	if pod.UID == "" || len(pod.Spec.SchedulingGates) > 0 {
		return ""
	}
	if slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled }) {
		return ""
	}
	others := make(map[string]int)
	for _, other := range s.Pods() {
		if other.Spec.NodeName != "" && other.Spec.SchedulerName != "" {
			others[other.Spec.SchedulerName]++
		}
	}
	text := fmt.Sprintf("no scheduler has looked at it yet: it has no condition PodScheduled. It names scheduler %q (spec.schedulerName)", pod.Spec.SchedulerName)
	if n := others[pod.Spec.SchedulerName]; n > 0 {
		return text + fmt.Sprintf(", which has bound %s that you may see; look whether it runs", plural(n, "pod"))
	}
	if len(others) == 0 {
		return text + "; look whether there is one of that name, and whether it runs"
	}
	return text + fmt.Sprintf(", which has bound no pod that you may see; those that have are %s",
		few(slices.Sorted(maps.Keys(others))))
}

// failedCreation is the reason of the event about a claim that could not be created.
const failedCreation = "FailedResourceClaimCreation"

// claimsNotMade lists the claims that do not exist yet for a pod's templates, and why if that is known: the
// controller reports it only in an event.
func claimsNotMade(s *whatif.Snapshot, pod *v1.Pod, a *around) string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if reference := &pod.Spec.ResourceClaims[i]; reference.ResourceClaimTemplateName != nil && !isMade(pod, reference.Name) {
			names = append(names, reference.Name)
		}
	}
	if len(names) == 0 || pod.UID == "" {
		return ""
	}
	text := fmt.Sprintf("kube-controller-manager has not made its claim %s from the template", strings.Join(names, ", "))
	events, whyNot := a.events.get()
	_, noQuotas := a.quotas.get()
	switch {
	case whyNot != "" && whyNot == noQuotas:
		return text + "; why is not known: only the pod's events and ResourceQuotas say it, and " + whyNot
	case whyNot != "":
		text += "; why is not known: only the pod's events say it, and " + whyNot
	}
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Reason == failedCreation {
			text += ": " + events[i].Message
			break
		}
	}
	return text + usedUp(a)
}

func isMade(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(s v1.PodResourceClaimStatus) bool { return s.Name == name })
}

// usedUp lists exhausted quotas on claims and devices.
func usedUp(a *around) string {
	quotas, whyNot := a.quotas.get()
	if whyNot != "" {
		return ". Whether a ResourceQuota is in the way is not known (" + whyNot + ")"
	}
	var texts []string
	for i := range quotas {
		quota := &quotas[i]
		for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
			hard, used := quota.Status.Hard[name], quota.Status.Used[name]
			ofClaims := strings.Contains(string(name), "resourceclaims") || strings.Contains(string(name), ".deviceclass."+resourceapi.GroupName)
			if ofClaims && quantity.Compare(used, hard) >= 0 {
				texts = append(texts, fmt.Sprintf("ResourceQuota %s is used up: %s of %s %s", quota.Name, used.String(), hard.String(), name))
			}
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return ". " + strings.Join(texts, "; ")
}

// gang counts the existing pods of the pod's PodGroup, if they must start together.
func gang(s *whatif.Snapshot, pod *v1.Pod, a *around) string {
	group := pod.Spec.SchedulingGroup
	if group == nil || group.PodGroupName == nil {
		return ""
	}
	wanted, whyNot := a.gang.get()
	if whyNot != "" {
		return fmt.Sprintf("it may have to start together with others of PodGroup %s, which is not known (%s)", *group.PodGroupName, whyNot)
	}
	if wanted == 0 {
		return ""
	}
	there, placed := 0, 0
	for _, other := range s.Pods() {
		of := other.Spec.SchedulingGroup
		if other.Namespace != pod.Namespace || of == nil || of.PodGroupName == nil || *of.PodGroupName != *group.PodGroupName {
			continue
		}
		if other.Status.Phase != v1.PodSucceeded && other.Status.Phase != v1.PodFailed {
			there++
		}
		if other.Spec.NodeName != "" {
			placed++
		}
	}
	text := fmt.Sprintf("gang %s starts %d pods at once", *group.PodGroupName, wanted)
	if there < int(wanted) {
		return text + fmt.Sprintf("; there %s %d of %d, so that none gets a node before the others exist", are(there), there, wanted)
	}
	return text + fmt.Sprintf("; there %s %d, %d of them on nodes: this one goes when enough of the others fit too", are(there), there, placed)
}
