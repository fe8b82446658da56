package checker

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storageapi "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/storage/volume"
)

// storage holds the objects that decide where the volumes of pods are, or may be made.
type storage struct {
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes []*corev1.PersistentVolume // sorted by name
	classes map[string]*storageapi.StorageClass
	// drivers are the provisioners that may count their free space.
	drivers map[string]bool
}

// listStorage lists the objects that pods with volumes need. It lists nothing if there are no such pods.
func listStorage(ctx context.Context, client kubernetes.Interface, open []*corev1.Pod) (*storage, error) {
	st := &storage{claims: map[types.NamespacedName]*corev1.PersistentVolumeClaim{}, classes: map[string]*storageapi.StorageClass{}, drivers: map[string]bool{}}
	if !slices.ContainsFunc(open, func(pod *corev1.Pod) bool { return len(volumeClaims(pod)) > 0 }) {
		return st, nil
	}
	claims, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list persistent volume claims: %w", err)
	}
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list persistent volumes: %w", err)
	}
	classes, err := client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list storage classes: %w", err)
	}
	drivers, err := client.StorageV1().CSIDrivers().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("check the cluster: list CSI drivers: %w", err)
	}
	for i := range claims.Items {
		st.claims[nameOf(&claims.Items[i])] = &claims.Items[i]
	}
	for i := range classes.Items {
		st.classes[classes.Items[i].Name] = &classes.Items[i]
	}
	for _, driver := range drivers.Items {
		st.drivers[driver.Name] = true
	}
	st.volumes = sortedByName(volumes.Items)
	return st, nil
}

// volumeClaims returns the names of the claims for the volumes of a pod. A value is true if the claim is made for the pod.
func volumeClaims(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names[v.PersistentVolumeClaim.ClaimName] = false
		case v.Ephemeral != nil:
			names[pod.Name+"-"+v.Name] = true
		}
	}
	return names
}

// claimsOf returns the claims for the volumes of a pod. The pod has to wait if a claim is missing, is being deleted, is lost,
// belongs to another pod, or is bound by somebody else: because its class binds at once, or because its volume is being made. It
// does not judge volumes that other pods or the node's attachments keep from the pod.
func (st *storage) claimsOf(pod *corev1.Pod) (claims []*corev1.PersistentVolumeClaim, ready bool) {
	own := volumeClaims(pod)
	for _, name := range sortedKeys(own) {
		claim := st.claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
		if claim == nil || claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimLost || own[name] && !metav1.IsControlledBy(claim, pod) ||
			slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) || !isBound(claim) && !st.waitsForPod(claim) {
			return nil, false
		}
		claims = append(claims, claim)
	}
	slices.SortStableFunc(claims, func(a, b *corev1.PersistentVolumeClaim) int {
		return cmp.Compare(a.Spec.Resources.Requests.Storage().Value(), b.Spec.Resources.Requests.Storage().Value())
	})
	return claims, true
}

func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// waitsForPod reports whether a claim waits for a pod to be scheduled.
func (st *storage) waitsForPod(claim *corev1.PersistentVolumeClaim) bool {
	class := st.classes[volume.GetPersistentVolumeClaimClass(claim)]
	return claim.Spec.VolumeName == "" && !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnSelectedNode) && class != nil &&
		class.VolumeBindingMode != nil && *class.VolumeBindingMode == storageapi.VolumeBindingWaitForFirstConsumer && !st.drivers[class.Provisioner] &&
		!slices.ContainsFunc(st.volumes, func(v *corev1.PersistentVolume) bool { return volume.IsVolumeBoundToClaim(v, claim) })
}

// reach reports whether all of the claims can be used on a node, and adds to taken the volumes that would be bound to them.
func (st *storage) reach(claims []*corev1.PersistentVolumeClaim, node *corev1.Node, taken map[string]*corev1.PersistentVolume) bool {
	for _, claim := range claims {
		if isBound(claim) {
			if v := st.named(claim.Spec.VolumeName); v == nil || !isPlainVolume(v) || volume.CheckNodeAffinity(v, node.Labels) != nil {
				return false
			}
			continue
		}
		found, err := volume.FindMatchingVolume(claim, st.volumes, node, taken, true, true)
		switch {
		case err != nil || found != nil && !isPlainVolume(found):
			return false
		case found != nil:
			taken[found.Name] = found
		case !st.makes(claim, node):
			return false
		}
	}
	return true
}

func (st *storage) named(name string) *corev1.PersistentVolume {
	for _, v := range st.volumes {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// isPlainVolume reports whether only its node affinity decides where a volume can be used: no limit of attachments, no zone.
func isPlainVolume(v *corev1.PersistentVolume) bool {
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion} {
		if v.Labels[label] != "" {
			return false
		}
	}
	return v.Spec.Local != nil || v.Spec.HostPath != nil || v.Spec.NFS != nil
}

// makes reports whether the class of a claim makes volumes for pods on the node.
func (st *storage) makes(claim *corev1.PersistentVolumeClaim, node *corev1.Node) bool {
	class := st.classes[volume.GetPersistentVolumeClaimClass(claim)]
	if class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner {
		return false
	}
	return len(class.AllowedTopologies) == 0 || slices.ContainsFunc(class.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			value, has := node.Labels[e.Key]
			return !has || !slices.Contains(e.Values, value)
		})
	})
}
