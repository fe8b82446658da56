package compat

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// nodeKey is the label by which allocations say for which node they are.
const nodeKey = "kubernetes.io/hostname"

// free returns how many more claims can be allocated for each node.
func (d *driver) free(claims []unstructured.Unstructured) map[string]int {
	free := make(map[string]int, len(d.capacity))
	for node, count := range d.capacity {
		free[node] = count
	}
	for i := range claims {
		if d.isOurs(&claims[i]) {
			free[allocatedNode(&claims[i])]--
		}
	}
	return free
}

// allocatedNode returns the node for which a claim is allocated, "" if it is not.
func allocatedNode(claim *unstructured.Unstructured) string {
	for _, field := range []string{"availableOnNodes", "nodeSelector"} {
		fields, found, _ := unstructured.NestedMap(claim.Object, "status", "allocation", field)
		if !found {
			continue
		}
		var selector corev1.NodeSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector); err == nil {
			return selector.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
		}
	}
	return ""
}

// syncClaims frees what is to be freed, and allocates what need not wait for pods.
func (d *driver) syncClaims(ctx context.Context) error {
	claims, err := d.list(ctx, "resourceclaims")
	if err != nil {
		return err
	}
	free := d.free(claims)
	for i := range claims {
		claim := &claims[i]
		switch {
		case !d.isOurs(claim) || isUsed(claim):
		case claim.GetDeletionTimestamp() != nil || isSet(claim, "status", "deallocationRequested"):
			if err := d.deallocate(ctx, claim); err != nil {
				return err
			}
		case text(claim, "spec", "allocationMode") == "Immediate" && !isSet(claim, "status", "allocation"):
			for i := range len(d.capacity) {
				if node := d.space.Node(i); free[node] > 0 {
					free[node]--
					if err := d.allocate(ctx, claim, node, nil); err != nil {
						return err
					}
					break
				}
			}
		}
	}
	return nil
}

func isUsed(claim *unstructured.Unstructured) bool {
	consumers, _, _ := unstructured.NestedSlice(claim.Object, "status", "reservedFor")
	return len(consumers) > 0
}

// deallocate removes the allocation, the request for that, and then the finalizer.
func (d *driver) deallocate(ctx context.Context, claim *unstructured.Unstructured) error {
	if !slices.Contains(claim.GetFinalizers(), d.finalizer()) {
		return nil
	}
	unstructured.RemoveNestedField(claim.Object, "status", "allocation")
	unstructured.RemoveNestedField(claim.Object, "status", "deallocationRequested")
	updated, err := d.resource("resourceclaims").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	updated.SetFinalizers(slices.DeleteFunc(updated.GetFinalizers(), func(name string) bool { return name == d.finalizer() }))
	_, err = d.resource("resourceclaims").Update(ctx, updated, metav1.UpdateOptions{})
	return err
}

// allocate allocates a claim for a node; pod is nil if it is for nobody in particular.
func (d *driver) allocate(ctx context.Context, claim *unstructured.Unstructured, node string, pod *corev1.Pod) error {
	claim = claim.DeepCopy()
	if !slices.Contains(claim.GetFinalizers(), d.finalizer()) {
		claim.SetFinalizers(append(claim.GetFinalizers(), d.finalizer()))
		var err error
		if claim, err = d.resource("resourceclaims").Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(builder.NodeSelector(nodeKey, node))
	if err != nil {
		return err
	}
	status := map[string]any{}
	if tested.claims == api.V1alpha2 {
		status["driverName"] = d.name
		status["allocation"] = map[string]any{
			"availableOnNodes": selector, "shareable": !d.exclusive,
			"resourceHandles": []any{map[string]any{"driverName": d.name, "data": `{"for":"` + node + `"}`}},
		}
	} else {
		status["allocation"] = map[string]any{
			"nodeSelector": selector, "controller": d.name,
			"devices": map[string]any{"results": []any{map[string]any{
				"request": "gpu", "driver": d.name, "pool": node, "device": claim.GetName(),
			}}},
		}
	}
	if pod != nil && d.reserves {
		status["reservedFor"] = []any{map[string]any{"resource": "pods", "name": pod.Name, "uid": string(pod.UID)}}
	}
	claim.Object["status"] = status
	_, err = d.resource("resourceclaims").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// syncContexts answers the scheduler.
func (d *driver) syncContexts(ctx context.Context) error {
	contexts, err := d.list(ctx, "podschedulingcontexts")
	if err != nil {
		return err
	}
	var errs []error // A conflict about one is no reason for others to wait.
	for i := range contexts {
		if err := d.syncContext(ctx, &contexts[i]); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d *driver) syncContext(ctx context.Context, object *unstructured.Unstructured) error {
	pod, err := cluster.Client.CoreV1().Pods(object.GetNamespace()).Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil || object.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(object, pod) {
		return nil
	}
	claims, err := d.list(ctx, "resourceclaims")
	if err != nil {
		return err
	}
	pending := d.pending(pod, claims)
	if len(pending) == 0 {
		return nil
	}
	var known api.PodSchedulingContext
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &known); err != nil {
		return err
	}
	selected, free := known.Spec.SelectedNode, d.free(claims)
	nodes := slices.Clone(known.Spec.PotentialNodes)
	if selected != "" && !slices.Contains(nodes, selected) {
		nodes = append(nodes, selected)
	}
	unsuitable := slices.DeleteFunc(nodes, func(node string) bool { return free[node] >= len(pending) })
	if selected != "" && !slices.Contains(unsuitable, selected) {
		for _, claim := range pending {
			if err := d.allocate(ctx, claim, selected, pod); err != nil {
				return err
			}
		}
	}
	return d.answer(ctx, object, &known, pending, unsuitable)
}

// pending returns the claims of the pod that this driver has to allocate, by the names
// under which the pod has them.
func (d *driver) pending(pod *corev1.Pod, claims []unstructured.Unstructured) map[string]*unstructured.Unstructured {
	pending := make(map[string]*unstructured.Unstructured)
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		for j := range claims {
			if claim := &claims[j]; claim.GetName() == *name && d.isOurs(claim) && !isSet(claim, "status", "allocation") && claim.GetDeletionTimestamp() == nil {
				pending[pod.Spec.ResourceClaims[i].Name] = claim
			}
		}
	}
	return pending
}

// answer says which nodes will not do, if that is news.
func (d *driver) answer(ctx context.Context, object *unstructured.Unstructured, known *api.PodSchedulingContext, pending map[string]*unstructured.Unstructured, unsuitable []string) error {
	changed := false
	for name := range pending {
		entry := known.OfClaim(name)
		if entry == nil {
			known.Status.ResourceClaims = append(known.Status.ResourceClaims, api.ClaimSchedulingStatus{Name: name})
			entry, changed = known.OfClaim(name), true
		}
		if !slices.Equal(entry.UnsuitableNodes, unsuitable) {
			entry.UnsuitableNodes, changed = unsuitable, true
		}
	}
	if !changed {
		return nil
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&known.Status)
	if err != nil {
		return err
	}
	object.Object["status"] = status
	_, err = d.resource("podschedulingcontexts").UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}
