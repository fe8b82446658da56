package extendedresource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

// Maker makes claims for the extended resources of pods.
type Maker struct{ Writer *claimwriter.Writer }

// Create creates a claim of NewClaim that has got its requests. It returns the claim of the pod
// that exists then, nil if there is none; with an error also one that an earlier attempt made
// and that is not good for the pod.
func (m Maker) Create(ctx context.Context, pod *v1.Pod, wanted *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	created, err := m.Writer.Create(ctx, wanted)
	if err != nil {
		schedulermetrics.ResourceClaimCreatesTotal.WithLabelValues("failure", "false", "", "Pod").Inc()
		return nil, fmt.Errorf("create the claim for the pod's extended resources: %w", err)
	}
	schedulermetrics.ResourceClaimCreatesTotal.WithLabelValues("success", "false", "", "Pod").Inc()
	if OwnerOf(created) != pod.UID {
		return nil, fmt.Errorf("the claim for the pod's extended resources would be %s but there is one of that name already "+
			"which does not belong to the pod; delete it", klog.KObj(created))
	}
	if created.DeletionTimestamp != nil || !asksForSame(created, wanted) {
		return created, fmt.Errorf("claim %s (made by an earlier attempt for the pod's extended resources) is in the way; trying again without it", klog.KObj(created))
	}
	return created, nil
}

// RemoveUncreated deletes a claim of which it is not known whether Create has created it. It
// returns the claim if somebody else keeps it from going, else nil.
func (m Maker) RemoveUncreated(ctx context.Context, pod *v1.Pod, wanted *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	claim, err := m.Writer.Find(ctx, wanted.Namespace, wanted.Name)
	if err != nil || claim == nil || OwnerOf(claim) != pod.UID {
		return nil, err
	}
	return m.Writer.Remove(ctx, claim, pod.UID)
}

// Record writes into the pod's status which claim backs which of its extended resources. The
// kubelet goes by that. It has to be the last thing that is written before the pod is bound,
// because the API server does not let it be taken back.
func Record(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, claim *resourceapi.ResourceClaim, mappings []v1.ContainerExtendedResourceRequest) error {
	status := &v1.PodExtendedResourceClaimStatus{RequestMappings: mappings, ResourceClaimName: claim.Name}
	if err := patch(ctx, client, pod, status); err != nil {
		return fmt.Errorf("record claim %s for the pod's extended resources in its status: %w", klog.KObj(claim), err)
	}
	return nil
}

// patch writes the status whatever it was before: what is known of the pod may be older.
func patch(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"extendedResourceClaimStatus": status},
	})
	if err != nil {
		return err
	}
	var answer *v1.Pod
	if err := retry.OnError(retry.DefaultBackoff, mayGoAway, func() (err error) {
		answer, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: claimwriter.FieldManager}, "status")
		return err
	}); err != nil {
		return err
	}
	return checkRecorded(answer, status)
}

// mayGoAway reports whether a request that changes nothing when it is repeated had better
// be sent again.
func mayGoAway(err error) bool {
	return claimwriter.IsTransient(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// checkRecorded looks whether the server has stored what was written into the pod's status.
// One that does not know the field, or has the feature off, drops it without an error.
func checkRecorded(answer *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	stored := answer.Status.ExtendedResourceClaimStatus
	if stored != nil && stored.ResourceClaimName == status.ResourceClaimName && len(stored.RequestMappings) == len(status.RequestMappings) {
		return nil
	}
	return fmt.Errorf("the API server has accepted status.extendedResourceClaimStatus but has stored %v; "+
		"turn the feature gate DRAExtendedResource on there or use a ResourceClaim", stored)
}
