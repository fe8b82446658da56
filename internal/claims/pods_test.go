package claims

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// named and template make references of a pod to claims; made is the name of the claim that
// was made from the template of that reference, "" if none is needed.
func named(claim string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "by-name", ResourceClaimName: &claim})
	}
}

func template(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To("template")})
	}
}

func made(name, claim string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		status := v1.PodResourceClaimStatus{Name: name}
		if claim != "" {
			status.ResourceClaimName = &claim
		}
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, status)
	}
}

func TestKeysOf(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("p", named("a"), named("a"), template("gpu"), made("gpu", "p-gpu"), template("nic"), template("none"), made("none", ""))
	keys, err := keysOf(pod)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"default/a", "default/p-gpu"}, keys)
	require.Equal(t, []string{"a", "p-gpu"}, NamesOf(pod))
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "p-extended"}
	require.Equal(t, []string{"a", "p-gpu", "p-extended"}, NamesOf(pod))
	keys, err = keysOf(&v1.Node{})
	require.NoError(t, err)
	require.Empty(t, keys)
}

// member returns a pod of a group.
func member(name, group string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := builder.Pod(name, edits...)
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return pod
}

func TestConsumersAreThePodsThatAreMeant(t *testing.T) {
	t.Parallel()
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"by-claim": keysOf})
	claims := &Claims{Pods: pods, index: "by-claim"}
	bound := member("bound", "gang", named("c"))
	bound.Spec.NodeName = "n1"
	for _, pod := range []*v1.Pod{builder.Pod("p"), builder.Pod("namesake"), bound, member("other", "gang"), member("elsewhere", "another", named("c"))} {
		require.NoError(t, pods.Add(pod))
	}
	p := claims.Pod("default", "p")
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "p", UID: p.UID},
		{Resource: "pods", Name: "gone", UID: "uid-gone"},
		{Resource: "pods", Name: "namesake", UID: types.UID("earlier")},
		{Resource: "pods", APIGroup: "example.com", Name: "p", UID: p.UID},
	}
	require.Equal(t, []*v1.Pod{p}, claims.Consumers(claim))
	require.False(t, claims.InUse(claim))
	claim.Status.ReservedFor = append(claim.Status.ReservedFor,
		resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "gang", UID: "uid-gang"})
	require.Equal(t, []*v1.Pod{p, bound}, claims.Consumers(claim), "of the group, those that use the claim")
	require.True(t, claims.InUse(claim))

	claims.index = "none"
	_, err := claims.Users("default", "c")
	require.ErrorContains(t, err, "look up the pods that use claim default/c")
}
