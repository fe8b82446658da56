package status

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// write moves the status of a group one step further, if there is a step. The event of the write triggers the next one.
func (c *Controller) write(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	group, err := c.groups.Get(namespace, name)
	if err != nil {
		return nil // Pods may name a missing group. Its creation triggers a write.
	}
	pods, err := c.podsOf(key)
	if err != nil {
		return fmt.Errorf("find the pods of PodGroup %s: %w", key, err)
	}
	next := Next(group, pods, time.Now())
	if equality.Semantic.DeepEqual(next, group.Status) {
		return nil
	}
	if pause := c.pause(key); pause > 0 {
		c.queue.AddAfter(key, pause)
		return nil
	}
	patch, err := mergePatch(group, next)
	if err != nil {
		return fmt.Errorf("write the status of PodGroup %s: %w", key, err)
	}
	_, err = c.client.Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "quartermaster"}, "status")
	if err != nil && !apierrors.IsNotFound(err) { // A deleted group needs no status.
		return fmt.Errorf("write status.phase %q of PodGroup %s: %w", next.Phase, key, err)
	}
	c.wrote(key)
	return nil
}

// mergePatch returns the patch from the group's status to the next one. It applies only to that version of the group:
// the informer may be behind, and a final phase must stay.
func mergePatch(group *v1alpha1.PodGroup, next v1alpha1.PodGroupStatus) ([]byte, error) {
	type object struct {
		Status v1alpha1.PodGroupStatus `json:"status"`
	}
	before, err := json.Marshal(object{group.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(object{next})
	if err != nil {
		return nil, err
	}
	difference, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(difference, &patch); err != nil {
		return nil, err
	}
	patch["metadata"] = map[string]any{"resourceVersion": group.ResourceVersion}
	return json.Marshal(patch)
}

// report logs a failed write, which is tried again.
func (c *Controller) report(logger klog.Logger, key string, err error) {
	switch {
	case apierrors.IsConflict(err):
		logger.V(5).Info("The PodGroup has changed; its status is written again", "podGroup", key)
	case apierrors.IsForbidden(err) && !c.denied:
		c.denied = true
		logger.Error(err, "The scheduler may not write the status of PodGroups; give it the ClusterRole quartermaster-pod-groups (kubectl apply -k manifests/pod-groups)", "podGroup", key)
	default:
		logger.V(2).Info("Cannot write the status of a PodGroup; trying again", "podGroup", key, "err", err)
	}
}
