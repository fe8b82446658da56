package compat

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// What pods say about their claims stays as it is on the server, whatever the scheduler
// writes about them: reasons, a nominated node, that they are preempted, their node.
func TestPodsKeepTheirReferences(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-references", 1)
	d := newDriver(s, "one", places(2))
	d.createTemplate("one")
	d.createClaim("gpu")
	priority := createPriority(s)
	pods := d.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(s.Name)
	events, err := pods.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()

	s.Create(withCPUs(s.Pod("victim", builder.FromTemplate("one")), "20", ""))
	s.Running("victim")
	s.Create(withCPUs(s.Pod("urgent", builder.Uses("gpu")), "20", priority))
	s.Gone("victim")
	s.Running("urgent")

	states := allStates(s, events)
	for pod, reference := range map[string]map[string]any{
		"victim": {"resourceClaimTemplateName": "one"},
		"urgent": {"resourceClaimName": "gpu"},
	} {
		want := map[string]any{"name": map[string]string{"victim": "one", "urgent": "gpu"}[pod]}
		if tested.claims == api.V1alpha2 {
			want["source"] = reference
		} else {
			for field, value := range reference {
				want[field] = value
			}
		}
		for _, state := range states[pod] {
			found, _, err := unstructured.NestedSlice(state.Object, "spec", "resourceClaims")
			require.NoError(t, err)
			require.Empty(t, cmp.Diff([]any{want}, found))
		}
	}
	// All of that has been written.
	require.True(t, anyHas(states["victim"], "spec", "nodeName"))
	require.True(t, anyCondition(states["victim"], corev1.DisruptionTarget))
	require.True(t, anyHas(states["urgent"], "status", "nominatedNodeName"))
	require.True(t, anyCondition(states["urgent"], corev1.PodScheduled))
	require.True(t, anyHas(states["urgent"], "spec", "nodeName"))
}

// createPriority makes a class for pods that may preempt others, and returns its name.
func createPriority(s *harness.Space) string {
	s.T.Helper()
	classes := s.Cluster.Client.SchedulingV1().PriorityClasses()
	s.Cluster.PriorityClass(s.T, s.Name, 1000)
	s.T.Cleanup(func() { require.NoError(s.T, classes.Delete(context.Background(), s.Name, metav1.DeleteOptions{})) })
	return s.Name
}

// withCPUs makes a pod ask for CPUs, of which a node has 32, with a priority class.
func withCPUs(pod *corev1.Pod, cpus, priority string) *corev1.Pod {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	pod.Spec.PriorityClassName = priority
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	return pod
}

// allStates returns the states of pods as the server had them, until one that runs.
func allStates(s *harness.Space, events watch.Interface) map[string][]*unstructured.Unstructured {
	s.T.Helper()
	states := make(map[string][]*unstructured.Unstructured)
	s.Eventually("hear of all changes", func(ctx context.Context) error {
		select {
		case event := <-events.ResultChan():
			pod, isPod := event.Object.(*unstructured.Unstructured)
			if !isPod {
				return fmt.Errorf("there is an event without a pod: %v", event)
			}
			states[pod.GetName()] = append(states[pod.GetName()], pod)
			if pod.GetName() == "urgent" && text(pod, "status", "phase") == string(corev1.PodRunning) {
				return nil
			}
		default:
		}
		return fmt.Errorf("found %d states of pods, but not that urgent runs", len(states["victim"])+len(states["urgent"]))
	})
	return states
}

func anyHas(states []*unstructured.Unstructured, path ...string) bool {
	for _, state := range states {
		if text(state, path...) != "" {
			return true
		}
	}
	return false
}

func anyCondition(states []*unstructured.Unstructured, kind corev1.PodConditionType) bool {
	for _, state := range states {
		conditions, _, _ := unstructured.NestedSlice(state.Object, "status", "conditions")
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok && fields["type"] == string(kind) {
				return true
			}
		}
	}
	return false
}
