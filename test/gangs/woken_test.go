package gangs

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestTaintRuleEnds: a gang that waits because of a DeviceTaintRule is started when that is deleted.
func TestTaintRuleEnds(t *testing.T) {
	s := newSpace(t, "taint-rule", false, 1, 2)
	rule := builder.TaintRule(s.Name, s.Driver, s.Node(0), "", "sick", resourceapi.DeviceTaintEffectNoSchedule)
	s.Create(rule)
	s.group("train", 2)
	pods := s.members("train", 0, 2)
	s.Waiting(pods[0], "group")
	s.Waiting(pods[1], "group")
	s.Asleep(s.shared, 2) // What came with the pods is over.
	require.NoError(t, cluster.Client.ResourceV1().DeviceTaintRules().Delete(t.Context(), rule.Name, metav1.DeleteOptions{}))
	s.RunningSoon(pods...)
}

// TestVolumesBoundOneAfterTheOther: a gang whose PersistentVolumeClaims are bound at different times is started after the last.
func TestVolumesBoundOneAfterTheOther(t *testing.T) {
	s := newSpace(t, "volumes", false, 1, 2)
	s.group("train", 2)
	var pods []string
	for _, name := range []string{"a", "b"} {
		s.volumeClaim(name)
		pod := in("train", s.Pod("train-"+name, builder.FromTemplate("one")))
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		s.Create(pod)
		pods = append(pods, pod.Name)
	}
	s.Waiting(pods[0], "")
	s.Waiting(pods[1], "")
	s.bindVolume("a")
	s.Waiting(pods[0], "group")
	s.Asleep(s.shared, 2) // The gang has been tried again since.
	s.bindVolume("b")
	s.RunningSoon(pods...)
}

var oneGi = builder.Resources("storage", "1Gi")

// volumeClaim creates a PersistentVolumeClaim that only bindVolume binds.
func (s *space) volumeClaim(name string) {
	_, err := cluster.Client.CoreV1().PersistentVolumeClaims(s.Name).Create(s.T.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To(""),
			Resources: corev1.VolumeResourceRequirements{Requests: oneGi},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
}

// bindVolume does what the controller of volumes does.
func (s *space) bindVolume(name string) {
	ctx, core := s.T.Context(), cluster.Client.CoreV1()
	pvc, err := core.PersistentVolumeClaims(s.Name).Get(ctx, name, metav1.GetOptions{})
	require.NoError(s.T, err)
	volume := s.Name + "-" + name
	_, err = core.PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: oneGi, AccessModes: pvc.Spec.AccessModes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/x"}},
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: s.Name, Name: name, UID: pvc.UID},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	harness.UpdateStatus(s.T, core.PersistentVolumes(), volume, func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound })
	claims := core.PersistentVolumeClaims(s.Name)
	harness.Update(s.T, claims, name, func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.VolumeName = volume
		pvc.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
	})
	harness.UpdateStatus(s.T, claims, name, func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Status.Phase, pvc.Status.Capacity, pvc.Status.AccessModes = corev1.ClaimBound, oneGi, pvc.Spec.AccessModes
	})
}
