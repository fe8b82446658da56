package finalizers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// install applies the policy and waits until the API server knows of it.
func install(t *testing.T, s *harness.Space) {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.FinalizerAtCreation, manifests.ApplyOptions{}))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		policies := cluster.Client.AdmissionregistrationV1()
		require.NoError(t, policies.MutatingAdmissionPolicyBindings().Delete(ctx, "quartermaster-finalizer-at-creation", metav1.DeleteOptions{}))
		require.NoError(t, policies.MutatingAdmissionPolicies().Delete(ctx, "quartermaster-finalizer-at-creation", metav1.DeleteOptions{}))
		s.Eventually("see claims created without finalizer", func(context.Context) error { return finalizersOfNew(s, false) })
	})
	s.Eventually("see claims created with finalizer", func(context.Context) error { return finalizersOfNew(s, true) })
}

// finalizersOfNew tries, without storing it, whether a claim gets the finalizer.
func finalizersOfNew(s *harness.Space, want bool) error {
	claim := builder.Unsaved(s.Name, builder.Claim("tried", s.Want(1)).Obj())
	claims := cluster.Client.ResourceV1().ResourceClaims(s.Name)
	created, err := claims.Create(context.Background(), claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if got := len(created.Finalizers) > 0; got != want {
		return fmt.Errorf("finalizers %v", created.Finalizers)
	}
	return nil
}

// run has a pod with one claim bound, and returns what was written for that.
func run(t *testing.T, s *harness.Space, pod string) writes {
	t.Helper()
	before := countWrites(t)
	s.Create(s.Pod(pod, builder.FromTemplate("one")))
	s.Running(pod)
	var made writes
	s.Eventually("see both events", func(context.Context) error {
		if made = countWrites(t).since(before); made.events < 2 {
			return fmt.Errorf("%+v", made)
		}
		return nil
	})
	return made
}

// TestWrites: for a pod with one claim, the scheduler writes the allocation, the binding and an event about the pod; one about the
// claim as well, up to ten a second (claimEventsPerSecond). Without the policy, there is the finalizer before that.
func TestWrites(t *testing.T) {
	s := newSpace(t, "writes", 2)
	// What the class asks for is evaluated with the first pod. On a slow machine, that takes longer than one attempt, and an event says so.
	s.Create(s.Pod("first", builder.FromTemplate("one")))
	s.Running("first")
	s.Eventually("see the last events about it", func(ctx context.Context) error { return lastEvents(ctx, s) })
	s.DeletePod("first")
	s.Eventually("see its claim go", func(context.Context) error { return noClaims(s) })
	without := run(t, s, "without")
	require.Equal(t, writes{finalizers: 1, allocations: 1, bindings: 1, events: 2}, without)
	install(t, s)
	with := run(t, s, "with")
	require.Equal(t, writes{allocations: 1, bindings: 1, events: 2}, with)
	list, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	for i := range list.Items {
		require.Equal(t, []string{resourceapi.Finalizer}, list.Items[i].Finalizers)
	}
	s.DeletePod("without")
	s.DeletePod("with")
	s.Eventually("see the claims go", func(context.Context) error { return noClaims(s) })
}

// lastEvents fails unless there are the events about an allocation and about a binding.
func lastEvents(ctx context.Context, s *harness.Space) error {
	events, err := cluster.Client.EventsV1().Events(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var reasons []string
	for i := range events.Items {
		reasons = append(reasons, events.Items[i].Reason)
	}
	if !slices.Contains(reasons, "Scheduled") || !slices.Contains(reasons, "DevicesAllocated") {
		return fmt.Errorf("there are events with the reasons %v", reasons)
	}
	return nil
}

// TestNeverAllocated: claims that were never allocated go as well when their pods do, or when they are deleted.
func TestNeverAllocated(t *testing.T) {
	s := newSpace(t, "never", 1)
	install(t, s)
	s.Create(s.Pod("first", builder.FromTemplate("one")))
	s.Running("first")
	s.Create(s.Pod("second", builder.FromTemplate("one")))
	s.Waiting("second")
	theirs := builder.Claim("theirs", s.Want(1)).Modify(func(claim *resourceapi.ResourceClaim) {
		claim.Finalizers = []string{"example.com/theirs"}
	}).Obj()
	s.Create(theirs)
	require.ElementsMatch(t, []string{"example.com/theirs", resourceapi.Finalizer}, s.LiveClaim("theirs").Finalizers)
	s.DeletePod("second")
	s.Eventually("see the claim of the pod go", func(context.Context) error { return onlyClaims(s, 2) })

	s.Delete(theirs)
	claims := cluster.Client.ResourceV1().ResourceClaims(s.Name)
	s.Eventually("see only the other finalizer", func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "theirs", metav1.GetOptions{})
		if err == nil && len(claim.Finalizers) != 1 {
			err = fmt.Errorf("finalizers %v", claim.Finalizers)
		}
		return err
	})
	_, err := claims.Patch(t.Context(), "theirs", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.DeletePod("first")
	s.Eventually("see all claims go", func(context.Context) error { return noClaims(s) })
}

func noClaims(s *harness.Space) error { return onlyClaims(s, 0) }

// onlyClaims fails unless there are so many claims.
func onlyClaims(s *harness.Space, want int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == want {
		return err
	}
	return fmt.Errorf("there are %d", len(list.Items))
}
