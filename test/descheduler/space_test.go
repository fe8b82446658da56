package descheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

const (
	// app is the name of the Deployment of most tests.
	app = "app"
	// template is the name of the claim template for one device.
	template = "one"
	// maintenance is the key of the taint of nodes that pods have to leave.
	maintenance = "example.com/maintenance"
)

// space is the part of the cluster that belongs to one test.
type space struct{ *harness.Space }

// newSpace makes a space with nodes that have some devices each. Pods can run on the first node only, until others are opened.
func newSpace(t *testing.T, name string, devices ...int) *space {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	scheduler := shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared", FeatureGates: catalogue.FeatureGates()})
	s := &space{cluster.NewSpace(t, name, scheduler.Profile, 0)}
	s.Log = scheduler.LogFile()
	s.furnish(devices)
	return s
}

// newSpaceWith is newSpace with a scheduler of its own, which chooses nodes by a strategy.
func newSpaceWith(t *testing.T, name, strategy string, devices ...int) *space {
	t.Helper()
	s := &space{cluster.NewSpace(t, name, "", 0)}
	s.StartScheduler(harness.SchedulerOptions{PluginArgs: map[string]any{"strategy": strategy}})
	s.furnish(devices)
	return s
}

// furnish creates the nodes of a space.
func (s *space) furnish(devices []int) {
	s.T.Helper()
	for i, count := range devices {
		node := fleet.Node(s.Node(i), s.Name, nil)
		node.Spec.Unschedulable = i > 0
		s.Create(node)
		if count > 0 {
			s.Devices(i, harness.Numbered(count)...)
		}
	}
	s.Create(builder.Claim(template, s.Want(1)).Template())
	s.Known()
}

// change changes a node, and waits until the scheduler has seen that.
func (s *space) change(node int, change func(*corev1.NodeSpec)) {
	s.T.Helper()
	harness.Update(s.T, cluster.Client.CoreV1().Nodes(), s.Node(node), func(node *corev1.Node) { change(&node.Spec) })
	s.Known()
}

// open lets pods run on a node.
func (s *space) open(node int) {
	s.T.Helper()
	s.change(node, func(spec *corev1.NodeSpec) { spec.Unschedulable = false })
}

// taint has pods leave a node.
func (s *space) taint(node int) {
	s.T.Helper()
	s.change(node, func(spec *corev1.NodeSpec) {
		spec.Taints = append(spec.Taints, corev1.Taint{Key: maintenance, Effect: corev1.TaintEffectNoSchedule})
	})
}

// untaint lets pods run on a node again.
func (s *space) untaint(node int) {
	s.T.Helper()
	s.change(node, func(spec *corev1.NodeSpec) {
		spec.Taints = slices.DeleteFunc(spec.Taints, func(taint corev1.Taint) bool { return taint.Key == maintenance })
	})
}

// deploy creates a Deployment on the nodes of the space. Without edits, its pods use nothing but CPU.
func (s *space) deploy(name string, replicas int32, edits ...func(*corev1.Pod)) {
	s.T.Helper()
	s.Create(s.deployment(name, replicas, edits...))
}

// deployment makes what deploy creates.
func (s *space) deployment(name string, replicas int32, edits ...func(*corev1.Pod)) *appsv1.Deployment {
	ofSpace := func(pod *corev1.Pod) { pod.Spec.SchedulerName = s.Profile }
	all := append([]func(*corev1.Pod){builder.OnLabeled(fleet.NodePoolLabel, s.Name), ofSpace}, edits...)
	return builder.Deployment(name, replicas, all...)
}

// withDevice has a pod use a claim of its own for one device.
func withDevice(pod *corev1.Pod) { builder.Using(builder.FromTemplate(template)...)(pod) }

// endsSlowly has the pods of a Deployment end only when they are killed.
func endsSlowly(deployment *appsv1.Deployment) *appsv1.Deployment {
	deployment.Spec.Template.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": "24h"}
	return deployment
}

// kill ends a pod that is deleted.
func (s *space) kill(pod string) {
	s.T.Helper()
	require.NoError(s.T, cluster.Client.CoreV1().Pods(s.Name).Delete(s.T.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	s.Gone(pod)
}

// live returns the names of all pods of the space that are not deleted, as the API server knows them.
func (s *space) live() (names []string) {
	s.T.Helper()
	pods, err := cluster.Client.CoreV1().Pods(s.Name).List(s.T.Context(), metav1.ListOptions{})
	require.NoError(s.T, err)
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			names = append(names, pods.Items[i].Name)
		}
	}
	return names
}

// leaves waits until the informer knows that a pod is deleted.
func (s *space) leaves(pod string) {
	s.T.Helper()
	s.Eventually("know that pod "+pod+" is deleted", func(context.Context) error {
		found, err := s.KnownPod(pod)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && found.DeletionTimestamp == nil {
			err = errors.New("it is not")
		}
		return err
	})
}

// podsOf returns the pods of a Deployment that are not deleted.
func (s *space) podsOf(deployment string) []*corev1.Pod {
	s.T.Helper()
	return slices.DeleteFunc(s.Pods(), func(pod *corev1.Pod) bool {
		return pod.Labels[builder.AppLabel] != deployment || pod.DeletionTimestamp != nil
	})
}

// runs waits until all pods of a Deployment run with their devices, and returns their names.
func (s *space) runs(deployment string, pods int) []string {
	s.T.Helper()
	running, _ := s.settles(deployment, pods, 0)
	return running
}

// settles waits until so many pods of a Deployment run with their devices, and so many wait whose reasons have all the parts. It
// returns their names.
func (s *space) settles(deployment string, runs, waits int, parts ...string) (running, waiting []string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have %d pods of %s run and %d wait", runs, deployment, waits), func(context.Context) error {
		running, waiting = nil, nil
		var errs []error
		for _, pod := range s.podsOf(deployment) {
			switch err := s.Runs(pod); {
			case err == nil:
				running = append(running, pod.Name)
			case harness.Waits(pod, parts...) == nil:
				waiting = append(waiting, pod.Name)
			default:
				errs = append(errs, err)
			}
		}
		if len(errs) > 0 || len(running) != runs || len(waiting) != waits {
			return errors.Join(append(errs, fmt.Errorf("%d run and %d wait", len(running), len(waiting)))...)
		}
		return nil
	})
	return running, waiting
}

// on requires that pods run on a node, and have devices of it unless they have none.
func (s *space) on(node int, pods ...string) {
	s.T.Helper()
	for _, pod := range pods {
		require.Equal(s.T, s.Node(node), s.LivePod(pod).Spec.NodeName)
		for _, result := range s.Results(pod) {
			require.Equal(s.T, s.Node(node), result.Pool)
		}
	}
}

// claimOf returns the name of the only claim of a pod.
func (s *space) claimOf(pod string) string {
	s.T.Helper()
	claims := s.Claims(pod)
	require.Len(s.T, claims, 1)
	return claims[0].Name
}
