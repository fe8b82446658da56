package extended

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
	"k8s.io/dynamic-resource-allocation/resourceclaim/metrics"
	"k8s.io/klog/v2"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// Create creates a claim that NewClaim made, after its requests were added. It returns the pod's
// claim that then exists, nil if there is none. An error may come with a claim that an earlier
// attempt made and that does not suit the pod.
//
// It asks the server first whether the pod is on a node: an earlier attempt may have bound it to one where no devices back its
// extended resources, and the answer may be lost. Then the pod must get no claim.
func Create(ctx context.Context, writer *write.Writer, pod *v1.Pod, wanted *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if _, err := writer.Ask(ctx, wanted, write.OfPod(pod)); err != nil {
		return nil, fmt.Errorf("create no claim for the pod's extended resources: %w", err)
	}
	created, err := writer.Create(ctx, wanted)
	if err != nil {
		metrics.ResourceClaimCreate.WithLabelValues("failure", "false", "", "Pod").Inc()
		return nil, fmt.Errorf("create the claim for the pod's extended resources: %w", err)
	}
	metrics.ResourceClaimCreate.WithLabelValues("success", "false", "", "Pod").Inc()
	if podclaims.MadeFor(created) != pod.UID {
		return nil, fmt.Errorf("the claim for the pod's extended resources would be %s but there is one of that name already "+
			"which does not belong to the pod; delete it", klog.KObj(created))
	}
	if created.DeletionTimestamp != nil || !asksForSame(created, wanted) {
		return created, fmt.Errorf("claim %s (made by an earlier attempt for the pod's extended resources) is in the way; trying again without it", klog.KObj(created))
	}
	return created, nil
}

// RemoveUncreated deletes a claim after a Create with unknown outcome. It returns the claim if
// other finalizers keep it, otherwise nil.
func RemoveUncreated(ctx context.Context, writer *write.Writer, pod *v1.Pod, wanted *resourceapi.ResourceClaim, unbound write.Unbound) (*resourceapi.ResourceClaim, error) {
	claim, err := writer.Find(ctx, wanted.Namespace, wanted.Name)
	if err != nil || claim == nil || podclaims.MadeFor(claim) != pod.UID {
		return nil, err
	}
	if err := unbound.Holds(ctx); err != nil { // The claim was read after the question.
		return nil, err
	}
	return writer.Remove(ctx, claim, unbound)
}

// Record writes into the pod's status which claim backs which of its extended resources, for the
// kubelet. It must be the last write before the pod is bound, because the API server does not let
// it be undone.
func Record(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, claim *resourceapi.ResourceClaim, mappings []v1.ContainerExtendedResourceRequest) error {
	status := &v1.PodExtendedResourceClaimStatus{RequestMappings: mappings, ResourceClaimName: claim.Name}
	if err := patch(ctx, client, pod, status); err != nil {
		return fmt.Errorf("record claim %s for the pod's extended resources in its status: %w", klog.KObj(claim), err)
	}
	return nil
}

// patch sets the status regardless of its previous value: the known state of the pod may be
// outdated.
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
			metav1.PatchOptions{FieldManager: write.FieldManager}, "status")
		return err
	}); err != nil {
		return err
	}
	return checkRecorded(answer, status)
}

// mayGoAway reports whether repeating a failed request may help. Only requests that are safe to
// repeat may use it.
func mayGoAway(err error) bool {
	return write.IsTransient(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// checkRecorded checks that the server has stored the new status of the pod. A server that does not
// know the field, or has the feature off, drops it without an error.
func checkRecorded(answer *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	stored := answer.Status.ExtendedResourceClaimStatus
	if stored != nil && stored.ResourceClaimName == status.ResourceClaimName && len(stored.RequestMappings) == len(status.RequestMappings) {
		return nil
	}
	return fmt.Errorf("the API server has accepted status.extendedResourceClaimStatus but has stored %v; "+
		"turn the feature gate DRAExtendedResource on there or use a ResourceClaim", stored)
}
