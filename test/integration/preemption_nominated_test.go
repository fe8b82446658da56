package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// TestNominatedCannotRun: others were evicted for a pod, and while they end, something else that it needs goes away for
// good: a device class, or a volume claim, about which another plugin decides. The devices that were made free for it go to
// another pod of the same priority, and the pod is not nominated any more.
func TestNominatedCannotRun(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(*harness.Space) error{
		"class": func(s *harness.Space) error {
			return cluster.Client.ResourceV1().DeviceClasses().Delete(s.T.Context(), s.Name+"-other", metav1.DeleteOptions{})
		},
		"volume": func(s *harness.Space) error {
			return cluster.Client.CoreV1().PersistentVolumeClaims(s.Name).Delete(s.T.Context(), "volume", metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPreemptionSpace(t, "preempt-cannot-run-"+name, 1)
			s.Devices(0, harness.Numbered(2)...)
			other := builder.Class(s.Name+"-other", builder.OfDriver(s.Driver))
			s.Create(other, builder.Claim("device", s.Want(1)).Template(), builder.Claim("two", s.Want(1), builder.Request("second", other.Name)).Template())
			volume := laterVolume(s)
			s.Create(endsAfter(s.Pod("victim-1", builder.FromTemplate("device")), "5s"), endsAfter(s.Pod("victim-2", builder.FromTemplate("device")), "5s"))
			s.Running("victim-1", "victim-2")
			preemptor := ofClass(s.Pod("preemptor", builder.FromTemplate("two")), important)
			preemptor.Spec.Volumes = []corev1.Volume{volume}
			s.Create(preemptor)
			nominated(s, "preemptor")
			require.NoError(t, goes(s))
			s.Create(ofClass(s.Pod("same-priority", builder.FromTemplate("device")), important))
			s.Gone("victim-1")
			s.Gone("victim-2")
			s.Running("same-priority")
			s.Eventually("see the preemptor without a nomination", func(context.Context) error {
				if pod := s.LivePod("preemptor"); pod.Status.NominatedNodeName != "" {
					return fmt.Errorf("it is nominated for node %s: %s", pod.Status.NominatedNodeName, harness.Reason(pod))
				}
				return nil
			})
		})
	}
}

// laterVolume makes a claim for a volume that is provisioned as soon as a pod has a node, and returns the volume of a pod
// that uses it.
func laterVolume(s *harness.Space) corev1.Volume {
	s.T.Helper()
	ctx, later := s.T.Context(), storagev1.VolumeBindingWaitForFirstConsumer
	_, err := cluster.Client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Provisioner: "example.com/later", VolumeBindingMode: &later,
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	_, err = cluster.Client.CoreV1().PersistentVolumeClaims(s.Name).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "volume"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &s.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.T, err)
	return corev1.Volume{Name: "later", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "volume"}}}
}
