package checker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storageapi "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// keptWorld is waitingWorld with a volume claim "data" of the class "later" for the pod that waits.
func keptWorld(change func(*corev1.PersistentVolumeClaim, *storageapi.StorageClass), more ...runtime.Object) cluster {
	class := &storageapi.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: "example.com/later", VolumeBindingMode: ptr.To(storageapi.VolumeBindingWaitForFirstConsumer)}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data", UID: "data-uid"}}
	claim.Spec.StorageClassName, claim.Spec.AccessModes = ptr.To("later"), []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if change != nil {
		change(claim, class)
	}
	return waitingWorld(func(c *cluster) {
		c.others = append(append(c.others, claim, class), more...)
		c.pods[1].Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	})
}

// newVolume returns one of a node that is free, or bound to the claim "data".
func newVolume(name, node string, bound bool) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.StorageClassName, v.Spec.AccessModes = "later", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	v.Spec.Local, v.Status.Phase = &corev1.LocalVolumeSource{Path: "/" + name}, corev1.VolumeAvailable
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	if bound {
		v.Spec.ClaimRef, v.Status.Phase = &corev1.ObjectReference{Namespace: namespace, Name: "data", UID: types.UID("data-uid")}, corev1.VolumeBound
	}
	return v
}

// TestWaitingForVolumes: the volumes of a pod have to be where it can run, or to be made there.
func TestWaitingForVolumes(t *testing.T) {
	bound := func(claim *corev1.PersistentVolumeClaim, _ *storageapi.StorageClass) {
		claim.Spec.VolumeName, claim.Annotations = "pv", map[string]string{volume.AnnBindCompleted: "yes"}
	}
	topology := func(value string) func(*corev1.PersistentVolumeClaim, *storageapi.StorageClass) {
		return func(_ *corev1.PersistentVolumeClaim, class *storageapi.StorageClass) {
			class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "rack", Values: []string{value}}}}}
		}
	}
	noneMade := func(_ *corev1.PersistentVolumeClaim, class *storageapi.StorageClass) {
		class.Provisioner = volume.NotSupportedProvisioner
	}
	zoned := newVolume("pv", "node-a", true)
	zoned.Labels = map[string]string{corev1.LabelTopologyZone: "z"}
	could := []string{"PodCouldRun pod train/waits"}
	for name, test := range map[string]testCase{
		"it is made where the pod runs": {cluster: keptWorld(nil), want: could},
		"it may be made there":          {cluster: keptWorld(topology("node-a")), want: could},
		"it is made elsewhere":          {cluster: keptWorld(topology("node-b"))},
		"it is there":                   {cluster: keptWorld(bound, newVolume("pv", "node-a", true)), want: could},
		"it is elsewhere":               {cluster: keptWorld(bound, newVolume("pv", "node-b", true))},
		"it is gone":                    {cluster: keptWorld(bound)},
		"its zone is not looked at":     {cluster: keptWorld(bound, zoned)},
		"a free one is there":           {cluster: keptWorld(noneMade, newVolume("pv", "node-a", false)), want: could},
		"a free one is elsewhere":       {cluster: keptWorld(noneMade, newVolume("pv", "node-b", false))},
		"none is free":                  {cluster: keptWorld(noneMade)},
		"the class is missing": {cluster: keptWorld(func(claim *corev1.PersistentVolumeClaim, _ *storageapi.StorageClass) {
			claim.Spec.StorageClassName = ptr.To("other")
		})},
		"it is to be bound at once": {cluster: keptWorld(func(_ *corev1.PersistentVolumeClaim, class *storageapi.StorageClass) {
			class.VolumeBindingMode = nil
		})},
		"it is being made": {cluster: keptWorld(func(claim *corev1.PersistentVolumeClaim, _ *storageapi.StorageClass) {
			claim.Annotations = map[string]string{volume.AnnSelectedNode: "node-a"}
		})},
		"it is being bound": {cluster: keptWorld(nil, newVolume("pv", "node-a", true))},
		"its claim is lost": {cluster: keptWorld(func(claim *corev1.PersistentVolumeClaim, class *storageapi.StorageClass) {
			bound(claim, class)
			claim.Status.Phase = corev1.ClaimLost
		}, newVolume("pv", "node-a", true))},
		"its claim is missing": {cluster: keptWorld(func(claim *corev1.PersistentVolumeClaim, _ *storageapi.StorageClass) { claim.Name = "other" })},
	} {
		test.options = Options{Settled: true, Served: servedHere}
		t.Run(name, test.run)
	}
}
