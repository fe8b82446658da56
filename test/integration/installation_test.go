package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// replacedLease is what kube-scheduler and what takes its place compete for.
const replacedLease = "kube-scheduler"

// As a second scheduler: a stock kube-scheduler looks after the pods that do not
// ask for another one.
func TestBesideStockScheduler(t *testing.T) {
	t.Parallel()
	const pods = 20
	stock := startStockScheduler(t, "stock-beside")
	plain := newSpaceFor(t, "beside-plain", 1, corev1.DefaultSchedulerName)
	plain.Log = stock.LogFile()
	claiming := newSpace(t, "beside-claiming", 2)
	for node := range 2 {
		claiming.Devices(node, numbered(pods/2)...)
	}
	claiming.Create(builder.Claim("one", claiming.Want(1)).Template())
	// Both kinds of pods on the same nodes at the same time.
	onSharedNodes := plain.Pod("plain", nil).Spec.NodeSelector
	for key := range onSharedNodes {
		onSharedNodes[key] = claiming.Name
	}
	var names []string
	for i := range pods {
		name := fmt.Sprintf("plain-%02d", i)
		plain.Create(plain.PodOn(name, onSharedNodes, nil))
		names = append(names, name)
	}
	claiming.CreatePods("claiming", pods)
	plain.Running(names...)
	claiming.RunningAndWaiting(pods, 0)
	for _, name := range names {
		require.Equal(t, corev1.DefaultSchedulerName, plain.scheduledBy(name))
	}
	for _, pod := range claiming.Pods() {
		require.Equal(t, builder.SchedulerName, claiming.scheduledBy(pod.Name))
	}
}

// scheduledBy is who reports to have scheduled a pod.
func (s *space) scheduledBy(pod string) string {
	s.T.Helper()
	var controller string
	s.Eventually("see the event about pod "+pod, func(ctx context.Context) error {
		events, err := cluster.Client.EventsV1().Events(s.Name).List(ctx, metav1.ListOptions{
			FieldSelector: "regarding.name=" + pod + ",reason=Scheduled",
		})
		if err != nil {
			return err
		}
		if len(events.Items) == 0 {
			return fmt.Errorf("there is none")
		}
		controller = events.Items[0].ReportingController
		return nil
	})
	return controller
}

// In the default scheduler's place, as manifests/replace-default says: applied
// while kube-scheduler runs, it waits for the lease and takes over when
// kube-scheduler is stopped.
//
// This test changes the rights of the identity that all schedulers under test
// have, so it does not run at the same time as others.
func TestReplaceDefaultScheduler(t *testing.T) {
	config := cluster.ControlPlane.AdminConfig()
	rbacOnly := manifests.ApplyOptions{RBACOnly: true}
	keepLease(t)
	require.NoError(t, manifests.Apply(t.Context(), config, manifests.ReplaceDefault, rbacOnly))
	// Not t.Context, which has ended by then.
	t.Cleanup(func() {
		require.NoError(t, manifests.Apply(context.Background(), config, manifests.Secondary, rbacOnly))
	})
	s := newSpaceFor(t, "replaced", 1, corev1.DefaultSchedulerName)
	s.Devices(0, numbered(2)...)
	stock := startStockScheduler(t, "stock-replaced")
	s.Log = stock.LogFile()
	s.Create(s.Pod("before", nil))
	s.Running("before")

	shipped, err := manifests.SchedulerConfig(manifests.ReplaceDefault)
	require.NoError(t, err)
	replacement, err := cluster.StartProcess(t.Context(), "scheduler", scheduler.Options{
		Config:  shipped,
		LogFile: filepath.Join(cluster.Logs, "replacement.log"),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, replacement.Err(), "the replacement ended although nobody asked it to")
		require.NoError(t, replacement.Stop())
	})
	former := leader(t)
	require.NoError(t, stock.Stop())
	s.Log = replacement.LogFile()
	s.Eventually("take over", func(context.Context) error {
		if holder := leader(t); holder == former || holder == "" {
			return fmt.Errorf("the lease is held by %q", holder)
		}
		return nil
	})

	// Pods without schedulerName; the API server says "default-scheduler".
	for _, name := range []string{"plain", "claiming", "greedy"} {
		if name == "plain" {
			s.Create(s.anonymous(s.Pod(name, nil)))
			continue
		}
		count := map[string]int64{"claiming": 2, "greedy": 3}[name]
		s.Create(builder.Claim(name, s.Want(count)).Obj(), s.anonymous(s.Pod(name, builder.Uses(name))))
	}
	s.Running("before", "plain", "claiming")
	require.Len(t, s.Results("claiming"), 2)
	s.Waiting("greedy", "claim "+s.Name+"/greedy request gpu", "2 devices match: 3 asked")
}

// keepLease lets the shared scheduler renew its lease until the end of the test, however long that takes: manifests/replace-default has no
// right to that one, and without it the scheduler ends after ten seconds.
func keepLease(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: manifests.Namespace, Name: "lease-of-shared-scheduler"}
	rights := cluster.Client.RbacV1()
	_, err := rights.Roles(meta.Namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{"quartermaster"}, Verbs: []string{"get", "update", "patch"},
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rights.RoleBindings(meta.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: "quartermaster"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, rights.RoleBindings(meta.Namespace).Delete(context.Background(), meta.Name, metav1.DeleteOptions{}))
		require.NoError(t, rights.Roles(meta.Namespace).Delete(context.Background(), meta.Name, metav1.DeleteOptions{}))
	})
}

// anonymous removes the schedulerName.
func (s *space) anonymous(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulerName = ""
	return pod
}

// leader is who holds the default scheduler's lease.
func leader(t *testing.T) string {
	t.Helper()
	lease, err := cluster.Client.CoordinationV1().Leases(manifests.Namespace).Get(t.Context(), replacedLease, metav1.GetOptions{})
	require.NoError(t, err)
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
