package extended

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
)

// The scheduler makes the claim for a pod's extended resources, and the pod owns it. It exists in
// memory only until PreBind creates it, because its requests depend on the node.
const (
	// claimInfix separates the name of the pod from the unique suffix.
	claimInfix = "-extended-resources-"
	// maxClaimName is the maximum length of names that the API server generates.
	maxClaimName = 63
	// uniqueBytes is the number of bytes of a hash of the pod's UID that make the name unique in
	// its namespace.
	uniqueBytes = 5
)

// NewClaim makes the claim for a pod, without requests. The name depends only on the pod, so that
// two processes cannot create two claims. The UID is not the final one. The claim has the finalizer
// from the start, which saves a write when it is allocated.
func NewClaim(pod *v1.Pod) *resourceapi.ResourceClaim {
	hash := sha256.Sum256([]byte(pod.UID))
	prefix, unique := pod.Name+claimInfix, hex.EncodeToString(hash[:uniqueBytes])
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace:    pod.Namespace,
		GenerateName: prefix,
		Name:         prefix[:min(len(prefix), maxClaimName-len(unique))] + unique,
		UID:          uuid.NewUUID(),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true),
		}},
		Annotations: map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		Finalizers:  []string{resourceapi.Finalizer},
	}}
}

// byPod is the index of claims for extended resources by the UID of the pod.
const byPod = "quartermasterExtendedClaimsByPod"

// IndexClaims makes the informer index claims for Made.
func IndexClaims(claims cache.SharedIndexInformer) error {
	err := claims.AddIndexers(cache.Indexers{byPod: func(obj any) ([]string, error) {
		if claim, ok := obj.(*resourceapi.ResourceClaim); ok {
			if owner := podclaims.MadeFor(claim); owner != "" {
				return []string{string(owner)}, nil
			}
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("index claims for extended resources by their pods: %w", err)
	}
	return nil
}

// Made returns the claims that earlier attempts have left for a pod, including those of another
// process or of the in-tree plugin: usually none or one. The claim to continue with comes first:
// one that is not being deleted, and allocated if possible. It looks up claims in the informer's
// store; latest returns the latest known state of a claim, nil if it does not exist.
func Made(pod *v1.Pod, claims cache.Indexer, latest func(namespace, name string) *resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, error) {
	if claims.GetIndexers()[byPod] == nil {
		return nil, nil // IndexClaims was not called: the feature is off.
	}
	objs, err := claims.ByIndex(byPod, string(pod.UID))
	if err != nil {
		return nil, fmt.Errorf("look up the claim for extended resources of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var left []*resourceapi.ResourceClaim
	for _, obj := range objs {
		claim, ok := obj.(*resourceapi.ResourceClaim)
		if !ok || claim.Namespace != pod.Namespace {
			continue
		}
		if known := latest(claim.Namespace, claim.Name); known != nil && known.UID == claim.UID {
			claim = known
		}
		left = append(left, claim)
	}
	slices.SortFunc(left, func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(
			compareBool(b.DeletionTimestamp == nil, a.DeletionTimestamp == nil),
			compareBool(b.Status.Allocation != nil, a.Status.Allocation != nil),
			strings.Compare(a.Name, b.Name),
		)
	})
	return left, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
