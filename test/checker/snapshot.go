package checker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/api"
)

// snapshot holds the objects of the API server, prepared for look-ups.
type snapshot struct {
	claims     []*resourceapi.ResourceClaim // sorted by namespace and name
	claimNamed map[types.NamespacedName]*resourceapi.ResourceClaim
	heldBy     map[deviceID][]holding
	pods       []*corev1.Pod // sorted by namespace and name
	podNamed   map[types.NamespacedName]*corev1.Pod
	nodeNamed  map[string]*corev1.Node
	pools      []*pool // sorted by driver and name
	poolNamed  map[poolID]*pool
	// slices are all published slices.
	slices []*resourceapi.ResourceSlice
}

// takeSnapshot lists everything once. Pods come before claims: a pod is bound after
// its claims were reserved, so a newly bound pod cannot be seen with older claims.
func takeSnapshot(ctx context.Context, client kubernetes.Interface) (*snapshot, error) {
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list pods: %w", err)
	}
	claims, err := client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list resource claims: %w", err)
	}
	resourceSlices, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list resource slices: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list nodes: %w", err)
	}

	s := &snapshot{
		claims:     sortedByName(claims.Items),
		claimNamed: map[types.NamespacedName]*resourceapi.ResourceClaim{},
		pods:       sortedByName(pods.Items),
		podNamed:   map[types.NamespacedName]*corev1.Pod{},
		nodeNamed:  map[string]*corev1.Node{},
	}
	resolve(s.claims, api.ResolverOf(client))
	for _, claim := range s.claims {
		s.claimNamed[nameOf(claim)] = claim
	}
	s.heldBy = holdings(s.claims)
	for _, pod := range s.pods {
		s.podNamed[nameOf(pod)] = pod
	}
	for i := range nodes.Items {
		s.nodeNamed[nodes.Items[i].Name] = &nodes.Items[i]
	}
	s.slices = sortedByName(resourceSlices.Items)
	s.pools, s.poolNamed = gatherPools(s.slices)
	return s, nil
}

// resolve replaces the spec of claims whose requests are in other objects (v1alpha2). These objects
// may have changed since the allocation; tests do not change them afterwards. A claim that cannot
// be resolved has no requests.
func resolve(claims []*resourceapi.ResourceClaim, resolver *api.Resolver) {
	if resolver == nil {
		return
	}
	for _, claim := range claims {
		resolved, err := resolver.Resolve(claim)
		if err != nil {
			claim.Spec = resourceapi.ResourceClaimSpec{}
		} else {
			claim.Spec = resolved.Spec
		}
	}
}

// sortedByName returns pointers to the items, ordered by namespace and name.
func sortedByName[T any, P interface {
	*T
	metav1.Object
}](items []T) []P {
	pointers := make([]P, 0, len(items))
	for i := range items {
		pointers = append(pointers, &items[i])
	}
	slices.SortFunc(pointers, func(a, b P) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return pointers
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func claimObject(claim *resourceapi.ResourceClaim) string {
	return "claim " + nameOf(claim).String()
}

func podObject(pod *corev1.Pod) string {
	return "pod " + nameOf(pod).String()
}

// Results returns the allocated devices of a claim, none if it is not allocated.
func Results(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.Devices.Results
}
