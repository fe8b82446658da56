package clusterstate

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// followPods has the ledger keep what deleted claims have while pods run with them.
func (s *State) followPods(pods cache.SharedIndexInformer) error {
	s.Ledger.Running = func(claim ledger.ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) []types.UID {
		return running(pods.GetIndexer(), claim, consumers)
	}
	_, err := pods.AddEventHandler(informer.Handler(func(before, after *v1.Pod) {
		if before != nil && isRunning(before) && (after == nil || after.UID != before.UID || !isRunning(after)) {
			s.Freed(s.Ledger.PodEnded(before.UID))
		}
	}))
	if err != nil {
		return fmt.Errorf("watch pods for what they run with: %w", err)
	}
	return nil
}

// isRunning reports whether a pod is on a node and has not ended.
func isRunning(pod *v1.Pod) bool { return pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod) }

// running returns the pods among the consumers of a claim, or in the PodGroups among them, that run.
func running(pods cache.Indexer, claim ledger.ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) (uids []types.UID) {
	for _, consumer := range consumers {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			pod := informer.Object[v1.Pod](pods, claim.Namespace+"/"+consumer.Name)
			if pod != nil && pod.UID == consumer.UID && isRunning(pod) {
				uids = append(uids, pod.UID)
			}
			continue
		}
		uids = append(uids, membersOf(pods, claim, consumer.Name)...)
	}
	return uids
}

// membersOf returns the pods of a PodGroup that run and use a claim.
func membersOf(pods cache.Indexer, claim ledger.ClaimRef, podGroup string) (uids []types.UID) {
	inNamespace, err := pods.ByIndex(cache.NamespaceIndex, claim.Namespace)
	if err != nil {
		inNamespace = pods.List() // There is no such index.
	}
	for _, object := range inNamespace {
		pod, isPod := object.(*v1.Pod)
		if isPod && pod.Namespace == claim.Namespace && isRunning(pod) && isMember(pod, podGroup) && uses(pod, claim.Name) {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

func isMember(pod *v1.Pod, podGroup string) bool {
	group := pod.Spec.SchedulingGroup
	return group != nil && group.PodGroupName != nil && *group.PodGroupName == podGroup
}

func uses(pod *v1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(reference v1.PodResourceClaim) bool {
		name, _, err := resourceclaim.Name(pod, &reference)
		return err == nil && name != nil && *name == claim
	})
}
