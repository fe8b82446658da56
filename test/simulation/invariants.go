package simulation

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// check is called for each stored change. The store's mutex is held.
func (w *World) check(c *collection, e event) {
	switch c.resource.Name {
	case "resourceclaims":
		w.noteConsumers(e)
		w.checkTaken(e)
		if e.kind != "DELETED" && isAllocated(e.now.fields) && (e.was == nil || !isAllocated(e.was.fields)) {
			w.checkAllocation(c, e.now)
		}
		if e.kind == "MODIFIED" && isAllocated(e.was.fields) && !isAllocated(e.now.fields) {
			w.note("claim %s is deallocated", e.now.text("name"))
		}
	case "resourceslices":
		if e.kind != "DELETED" {
			w.published.add(e.now.typed(c.resource).(*resourceapi.ResourceSlice))
		}
	case "nodes":
		w.wakeKubelet()
	case "persistentvolumeclaims":
		w.provision(e)
	case "pods":
		w.wakeKubelet()
		w.tellPod(e)
		if e.kind == "MODIFIED" && lookup(e.was.fields, []string{"spec", "nodeName"}) == "" && lookup(e.now.fields, []string{"spec", "nodeName"}) != "" {
			w.checkBinding(e.now)
		}
	}
}

// noteConsumers notes the consumers of a claim when they change.
func (w *World) noteConsumers(e event) {
	before, after := "", consumersOf(e.now)
	if e.was != nil {
		before = consumersOf(e.was)
	}
	if before != after {
		w.note("claim %s is reserved for [%s]", e.now.text("name"), after)
	}
}

// checkTaken: no claim is taken from a pod that is on a node, is not being deleted and has not ended.
func (w *World) checkTaken(e event) {
	if e.was == nil || !isAllocated(e.was.fields) {
		return
	}
	same := e.kind != "DELETED" && isAllocated(e.now.fields) && devicesOf(e.was) == devicesOf(e.now)
	var has []*object
	if same {
		has = w.usersOf(e.now)
	}
	for _, o := range w.usersOf(e.was) {
		phase := lookup(o.fields, []string{"status", "phase"})
		if slices.Contains(has, o) || lookup(o.fields, []string{"spec", "nodeName"}) == "" ||
			o.text("deletionTimestamp") != "" || phase == string(v1.PodSucceeded) || phase == string(v1.PodFailed) {
			continue
		}
		w.fail("claim %s is taken from pod %s, which is on a node", e.now.text("name"), o.text("name"))
	}
}

func consumersOf(o *object) string {
	status, _ := o.fields["status"].(map[string]any)
	consumers, _ := status["reservedFor"].([]any)
	text := ""
	for _, consumer := range consumers {
		text += " " + consumer.(map[string]any)["name"].(string)
	}
	return text
}

// tellPod notes the changes of a pod: its scheduling, its nomination and its end.
func (w *World) tellPod(e event) {
	name := e.now.text("name")
	if e.kind == "DELETED" {
		w.note("pod %s is gone", name)
		return
	}
	told := func(o *object) (reason, nominated string, ending bool) {
		if o == nil {
			return "", "", false
		}
		status, _ := o.fields["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			if condition, ok := c.(map[string]any); ok && condition["type"] == string(v1.PodScheduled) && condition["status"] == "False" {
				reason, _ = condition["message"].(string)
			}
		}
		nominated, _ = status["nominatedNodeName"].(string)
		return reason, nominated, o.text("deletionTimestamp") != ""
	}
	before, wasNominated, wasEnding := told(e.was)
	reason, nominated, ending := told(e.now)
	if reason != before && reason != "" {
		w.note("pod %s cannot be scheduled: %s", name, reason)
	}
	if nominated != wasNominated {
		w.note("pod %s is nominated for node %q", name, nominated)
	}
	if ending && !wasEnding {
		w.note("pod %s is being deleted", name)
	}
}

// hasBound reports whether a pod for which the claim is reserved is on a node.
func (w *World) hasBound(claim *object) bool {
	return slices.ContainsFunc(w.usersOf(claim), func(pod *object) bool { return lookup(pod.fields, []string{"spec", "nodeName"}) != "" })
}

// usersOf returns the pods for which a claim is reserved, also as members of a PodGroup.
func (w *World) usersOf(claim *object) (users []*object) {
	consumers := claimOfObject(claim).Status.ReservedFor
	for _, o := range w.server.store.collections["/v1/pods"].sorted() {
		group := lookup(o.fields, []string{"spec", "schedulingGroup", "podGroupName"})
		for _, consumer := range consumers {
			if string(consumer.UID) == o.text("uid") || consumer.Resource == "podgroups" && consumer.Name == group && w.names(o, claim) {
				users = append(users, o)
				break
			}
		}
	}
	return users
}

// names reports whether a pod has a claim.
func (w *World) names(pod, claim *object) bool {
	typed := pod.typed(Resource{Version: "v1", Kind: "Pod"}).(*v1.Pod)
	return typed.Namespace == claim.text("namespace") && slices.Contains(claimsOf(typed), claim.text("name"))
}

// checkBinding: each claim of a pod is allocated and reserved for it when it is bound.
func (w *World) checkBinding(now *object) {
	pod := now.typed(Resource{Version: "v1", Kind: "Pod"}).(*v1.Pod)
	w.note("pod %s is bound to %s", pod.Name, pod.Spec.NodeName)
	claims := w.server.store.collections["resource.k8s.io/v1/resourceclaims"]
	for name := range resourceclaim.PodClaims(pod) {
		o := claims.objects[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
		if o == nil {
			w.fail("pod %s is bound without its claim %s", pod.Name, name)
			continue
		}
		claim := claimOfObject(o)
		w.checkCPUs(pod, claim)
		if claim.Status.Allocation != nil {
			w.checkHolders(pod, o)
			w.checkAttached(pod.Name, claim)
		}
		reserved := false
		for _, consumer := range claim.Status.ReservedFor {
			group := pod.Spec.SchedulingGroup
			reserved = reserved || consumer.UID == pod.UID || group != nil && consumer.Resource == "podgroups" && consumer.Name == *group.PodGroupName
		}
		if claim.Status.Allocation == nil || !reserved {
			w.fail("pod %s is bound while its claim %s is allocated: %t, reserved for it: %t", pod.Name, name, claim.Status.Allocation != nil, reserved)
		}
	}
}
