package integration

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
)

// newSpaceWithDevices makes a space with a node that has some devices, and a template of claims for one. Its tests run one after
// the other, before those that run at the same time: the policy concerns all claims of the cluster, and they count all writes.
func newSpaceWithDevices(t *testing.T, name string, devices int) *space {
	t.Helper()
	s := newSpace(t, name, 1)
	s.Devices(0, numbered(devices)...)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	return s
}

// installPolicy applies manifests/finalizer-at-creation and waits until the API server knows of it.
func installPolicy(t *testing.T, s *space) {
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
func finalizersOfNew(s *space, want bool) error {
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

// writes are the requests to the API server that change something, of all clients.
type writes struct {
	// finalizers and allocations are updates of claims and of their status, bindings and events what is created.
	finalizers, allocations, bindings, events int
}

func countWrites(t *testing.T) writes {
	t.Helper()
	metrics, err := cluster.ReadAPIServerMetrics(t.Context())
	require.NoError(t, err)
	sum := func(labels ...string) (n int) {
		for _, verb := range []string{"PUT", "PATCH", "APPLY"} {
			n += int(metrics.Sum("apiserver_request_total", append(labels, "verb", verb)...))
		}
		return n
	}
	created := func(labels ...string) int {
		return int(metrics.Sum("apiserver_request_total", append(labels, "verb", "POST")...))
	}
	return writes{
		finalizers:  sum("resource", "resourceclaims", "subresource", ""),
		allocations: sum("resource", "resourceclaims", "subresource", "status"),
		bindings:    created("resource", "pods", "subresource", "binding"),
		events:      created("resource", "events", "group", "events.k8s.io"),
	}
}

// since returns how many of them came after others.
func (w writes) since(before writes) writes {
	return writes{w.finalizers - before.finalizers, w.allocations - before.allocations, w.bindings - before.bindings, w.events - before.events}
}

// writesFor has a pod with one claim bound, and returns what was written for that.
func writesFor(t *testing.T, s *space, pod string) writes {
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

// TestWritesForAPod: for a pod with one claim, the scheduler writes the allocation, the binding and an event about the pod; one about the
// claim as well, up to ten a second (claimEventsPerSecond). Without the policy, there is the finalizer before that.
func TestWritesForAPod(t *testing.T) {
	s := newSpaceWithDevices(t, "writes", 2)
	// What the class asks for is evaluated with the first pod. On a slow machine, that takes longer than one attempt, and an event says so.
	s.Create(s.Pod("first", builder.FromTemplate("one")))
	s.Running("first")
	s.Eventually("see the last events about it", func(ctx context.Context) error { return lastEvents(ctx, s) })
	s.DeletePod("first")
	s.Eventually("see its claim go", func(context.Context) error { return noClaims(s) })
	without := writesFor(t, s, "without")
	require.Equal(t, writes{finalizers: 1, allocations: 1, bindings: 1, events: 2}, without)
	installPolicy(t, s)
	with := writesFor(t, s, "with")
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
func lastEvents(ctx context.Context, s *space) error {
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

// TestNeverAllocatedClaimsGo: claims that were never allocated go as well when their pods do, or when they are deleted.
func TestNeverAllocatedClaimsGo(t *testing.T) {
	s := newSpaceWithDevices(t, "never", 1)
	installPolicy(t, s)
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

func noClaims(s *space) error { return onlyClaims(s, 0) }

// onlyClaims fails unless there are so many claims.
func onlyClaims(s *space, want int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := cluster.Client.ResourceV1().ResourceClaims(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == want {
		return err
	}
	return fmt.Errorf("there are %d", len(list.Items))
}
