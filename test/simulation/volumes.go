package simulation

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storageapi "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// volumes is the theme of histories with pods whose volumes are made on the pod's node, and the name of the storage class.
const volumes = "volumes"

func setupVolumes(g *generator) {
	g.add(0, (*World).createStorageClass, "create storage class %s", volumes)
}

func (w *World) createStorageClass() {
	later := storageapi.VolumeBindingWaitForFirstConsumer
	class := &storageapi.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: volumes}, Provisioner: "example.com/later", VolumeBindingMode: &later}
	ignore(w.client.StorageV1().StorageClasses().Create(w.ctx, class, metav1.CreateOptions{}))
}

// keeps gives the pod a volume. The provisioner needs a while to make it, and now and then its first attempt fails.
func (g *generator) keeps(p *podPlan) {
	name, takes, fails := fmt.Sprintf("volume-%d", g.volumes), time.Duration(g.random.IntN(9000))*time.Millisecond, g.one(4)
	g.volumes++
	g.add(g.soon(), func(w *World) { w.createVolumeClaim(name, takes, fails) }, "create volume claim %s; its volume takes %s, and the first attempt fails: %t", name, takes, fails)
	p.with(func(pod *v1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}, "volume %s", name)
}

// deleteVolume deletes a claim for a volume that pods may use.
func deleteVolume(g *generator) {
	name := fmt.Sprintf("volume-%d", g.random.IntN(max(g.volumes, 1)))
	g.add(g.soon(), func(w *World) {
		_ = w.client.CoreV1().PersistentVolumeClaims(namespace).Delete(w.ctx, name, metav1.DeleteOptions{})
	}, "delete volume claim %s", name)
}

// Annotations of a claim for the provisioner: the time that it needs, and whether its first attempt fails.
const (
	takesAnnotation = "example.com/takes"
	failsAnnotation = "example.com/fails"
)

func (w *World) createVolumeClaim(name string, takes time.Duration, fails bool) {
	class := volumes
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{takesAnnotation: takes.String()}}}
	if fails {
		claim.Annotations[failsAnnotation] = "true"
	}
	claim.Spec = v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class,
		Resources: v1.VolumeResourceRequirements{Requests: builder.Resources("storage", "1Gi")},
	}
	ignore(w.client.CoreV1().PersistentVolumeClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{}))
}

// provision is called with each change of a claim for a volume: once the scheduler has selected a node, the volume is made there after
// a while. The store's mutex is held.
func (w *World) provision(e event) {
	selected := func(o *object) string {
		if o == nil {
			return ""
		}
		return lookup(o.metadata(), []string{"annotations", volumehelpers.AnnSelectedNode})
	}
	if e.kind == "DELETED" || selected(e.now) == "" || selected(e.now) == selected(e.was) || w.ctx.Err() != nil {
		return
	}
	name := e.now.text("name")
	takes, _ := time.ParseDuration(lookup(e.now.metadata(), []string{"annotations", takesAnnotation}))
	w.afterwards(takes, func() { w.makeVolume(name) })
}

// makeVolume makes the volume of a claim and binds it, or removes the selected node after a failure.
func (w *World) makeVolume(name string) {
	claims := w.client.CoreV1().PersistentVolumeClaims(namespace)
	claim, err := claims.Get(w.ctx, name, metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName != "" || claim.Annotations[volumehelpers.AnnSelectedNode] == "" {
		return
	}
	node := claim.Annotations[volumehelpers.AnnSelectedNode]
	if claim.Annotations[failsAnnotation] != "" {
		delete(claim.Annotations, failsAnnotation)
		delete(claim.Annotations, volumehelpers.AnnSelectedNode)
		w.note("the volume of %s cannot be made on %s", name, node)
		ignore(claims.Update(w.ctx, claim, metav1.UpdateOptions{}))
		return
	}
	made := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID)}}
	made.Spec = v1.PersistentVolumeSpec{
		AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: volumes,
		ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: claim.UID},
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/" + name}},
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}}},
	}
	ignore(w.client.CoreV1().PersistentVolumes().Create(w.ctx, made, metav1.CreateOptions{}))
	claim.Spec.VolumeName = made.Name
	claim.Annotations[volumehelpers.AnnBindCompleted] = "yes"
	w.note("the volume of %s is there, on %s", name, node)
	ignore(claims.Update(w.ctx, claim, metav1.UpdateOptions{}))
}
