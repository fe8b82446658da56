package claims

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// IndexPods makes pods searchable by their claims, with an index of that name, which may exist
// already. It must be called before the informer runs.
func (c *Claims) IndexPods(pods cache.SharedIndexInformer, index string) error {
	c.Pods, c.index = pods.GetIndexer(), index
	if _, found := c.Pods.GetIndexers()[index]; found {
		return nil
	}
	if err := pods.AddIndexers(cache.Indexers{index: keysOf}); err != nil {
		return fmt.Errorf("index pods by their claims: %w", err)
	}
	return nil
}

// keysOf returns "namespace/name" of the claims that a pod's spec refers to. It leaves out the
// claim for extended resources, which belongs to one pod only and names that pod.
func keysOf(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	extended := pod.Status.ExtendedResourceClaimStatus
	var keys []string
	for _, name := range NamesOf(pod) {
		if extended == nil || name != extended.ResourceClaimName {
			keys = append(keys, pod.Namespace+"/"+name)
		}
	}
	return keys, nil
}

// NamesOf returns the names of the existing claims that a pod uses, each once, including the one
// for its extended resources (KEP-5004).
func NamesOf(pod *v1.Pod) []string {
	var names []string
	for name := range resourceclaim.PodClaims(pod) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Pod returns a pod, nil if it is not known.
func (c *Claims) Pod(namespace, name string) *v1.Pod {
	return informer.Object[v1.Pod](c.Pods, namespace+"/"+name)
}

// Users returns the known pods that use a claim. It fails without the index.
func (c *Claims) Users(namespace, claim string) ([]*v1.Pod, error) {
	objs, err := c.Pods.ByIndex(c.index, namespace+"/"+claim)
	if err != nil {
		return nil, fmt.Errorf("look up the pods that use claim %s/%s: %w", namespace, claim, err)
	}
	var pods []*v1.Pod
	for _, obj := range objs {
		if pod, ok := obj.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// Consumers returns the known pods that a claim is reserved for.
func (c *Claims) Consumers(claim *resourceapi.ResourceClaim) []*v1.Pod {
	var pods []*v1.Pod
	for _, consumer := range claim.Status.ReservedFor {
		if dra.IsPodGroup(consumer) {
			pods = append(pods, c.members(claim, consumer.Name)...)
			continue
		}
		pod := c.Pod(claim.Namespace, consumer.Name)
		if dra.IsPod(consumer) && pod != nil && pod.UID == consumer.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// members returns the known pods of a group that use a claim.
func (c *Claims) members(claim *resourceapi.ResourceClaim, podGroup string) []*v1.Pod {
	pods, err := c.Users(claim.Namespace, claim.Name)
	if err != nil {
		return nil // There is no index, because IndexPods was not called.
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return dra.PodGroupName(pod) != podGroup })
}

// InUse reports whether the claim is reserved for a pod that is known to be bound.
func (c *Claims) InUse(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(c.Consumers(claim), func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" })
}
