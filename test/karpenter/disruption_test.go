package karpenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyapi "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// doNotDisrupt on a pod has Karpenter leave its node alone.
const doNotDisrupt = "karpenter.sh/do-not-disrupt"

// testDeleted: Karpenter evicts the pods of a node that is deleted, as of one that expires, when their PodDisruptionBudget allows it. Until
// then they keep their devices; then the app gets others on a new node.
func testDeleted(t *testing.T) {
	s := newSpace(t, "deleted", poolOptions{})
	s.app("app", one)
	first := s.runs("app", 1)[0]
	node := s.node(first).Name
	s.Create(&policyapi.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: policyapi.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{builder.AppLabel: "app"}},
	}})
	err := cluster.Resources(t, nodeClaims, "").Delete(t.Context(), s.claimedOnce(1)[0], metav1.DeleteOptions{})
	require.NoError(t, err)
	s.told(metav1.NamespaceDefault, node, "FailedDraining", "Failed to drain node")
	require.Equal(t, []string{first}, s.runs("app", 1))
	require.NoError(t, cluster.Client.PolicyV1().PodDisruptionBudgets(s.Name).Delete(t.Context(), "app", metav1.DeleteOptions{}))
	s.movesFrom(node, "app")
}

// testDrifted: Karpenter replaces a node that is not as its NodePool says any more, unless a pod must not be disrupted. The new node comes
// first, since Karpenter knows that the claim of the pod needs one.
func testDrifted(t *testing.T) {
	s := newSpace(t, "drifted", poolOptions{kind: "gpu-one"})
	s.app("app", one)
	s.app("protected", one, func(pod *corev1.Pod) { pod.Annotations = map[string]string{doNotDisrupt: "true"} })
	first, protected := s.runs("app", 1)[0], s.runs("protected", 1)[0]
	node := s.node(first).Name
	s.patchPool(`{"spec":{"template":{"metadata":{"labels":{"example.com/version":"2"}}}}}`)
	s.says(nodeClaims, s.node(protected).OwnerReferences[0].Name, "Drifted", "True", "NodePoolDrifted")
	s.movesFrom(node, "app")
	require.Equal(t, []string{protected}, s.runs("protected", 1))
	s.nodes(2)
}

// testConsolidated: Karpenter replaces two nodes by a cheaper one that has the devices of both.
func testConsolidated(t *testing.T) {
	s := newSpace(t, "consolidated", poolOptions{})
	s.app("a", one)
	s.runs("a", 1)
	s.app("b", one)
	s.runs("b", 1)
	s.nodes(2)
	s.consolidate()
	s.Eventually("run both on one node", func(ctx context.Context) error {
		var kinds []string
		for _, app := range []string{"a", "b"} {
			for _, pod := range s.podsOf(app) {
				if err := s.Runs(pod); err != nil {
					return err
				}
				node, err := cluster.Client.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
				if err != nil {
					return err
				}
				kinds = append(kinds, node.Labels[corev1.LabelInstanceTypeStable])
			}
		}
		if !slices.Equal(kinds, []string{"gpu-two", "gpu-two"}) {
			return fmt.Errorf("they run on %v", kinds)
		}
		return nil
	})
	s.nodes(1)
	s.keepNodes()
}

// app creates a Deployment of a pod with a claim template.
func (s *space) app(name, template string, edits ...func(*corev1.Pod)) {
	s.T.Helper()
	made := builder.Deployment(name, 1)
	pod := s.Pod(name, builder.FromTemplate(template))
	for _, edit := range edits {
		edit(pod)
	}
	made.Spec.Template.Annotations, made.Spec.Template.Spec = pod.Annotations, pod.Spec
	s.Create(made)
}

// podsOf returns the pods of an app that are not being deleted, in the order of their names.
func (s *space) podsOf(app string) []*corev1.Pod {
	s.T.Helper()
	pods := slices.DeleteFunc(s.Pods(), func(pod *corev1.Pod) bool {
		return pod.Labels[builder.AppLabel] != app || pod.DeletionTimestamp != nil
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// runs waits until an app has so many pods and all run with their devices, and returns their names.
func (s *space) runs(app string, count int) (names []string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("run %d pods of %s", count, app), func(context.Context) error {
		names = nil
		pods := s.podsOf(app)
		for _, pod := range pods {
			if err := s.Runs(pod); err != nil {
				return err
			}
			names = append(names, pod.Name)
		}
		if len(pods) != count {
			return fmt.Errorf("it has %d pods", len(pods))
		}
		return nil
	})
	return names
}

// movesFrom waits until an app of one pod runs on another node, and the first one is gone. Then there is one claim for each app.
func (s *space) movesFrom(node, app string) {
	s.T.Helper()
	s.Eventually("move "+app+" away from node "+node, func(ctx context.Context) error {
		pods := s.podsOf(app)
		if len(pods) != 1 {
			return fmt.Errorf("it has %d pods", len(pods))
		}
		if err := s.Runs(pods[0]); err != nil {
			return err
		}
		if pods[0].Spec.NodeName == node {
			return errors.New("it is still there")
		}
		return nil
	})
	s.Eventually("see node "+node+" go with all of its claims", func(ctx context.Context) error {
		_, err := cluster.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there (%v)", err)
		}
		claims, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
		if pods := s.Pods(); err == nil && len(claims.Items) != len(pods) {
			err = fmt.Errorf("there are %d claims of %d pods", len(claims.Items), len(pods))
		}
		return err
	})
}
