package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Where claims come from, who may use them, and when that ends.
func TestClaims(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"from a template":          testTemplates,
		"of another pod":           testOwner,
		"shared by several pods":   testSharedClaim,
		"reserved for 256 already": testConsumerLimit,
		"being deleted":            testClaimBeingDeleted,
	})
}

// parallel runs subtests at the same time.
func parallel(t *testing.T, tests map[string]func(*testing.T)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func testTemplates(t *testing.T) {
	s := newSpace(t, "template", 1)
	s.Devices(0, numbered(2)...)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.CreatePods("user", 2)
	s.RunningAndWaiting(2, 0)
	claim := s.Claims("user-000")[0]
	require.True(t, metav1.IsControlledBy(claim, s.LivePod("user-000")), "the claim belongs to its pod")

	// The claim goes with its pod, and the device is free again.
	s.Create(s.Pod("next", builder.FromTemplate("one")))
	s.Waiting("next", "request gpu", "2 held by other claims")
	s.DeletePod("user-000")
	s.RunningSoon("next")
	s.Eventually("delete the claim of the pod that is gone", func(context.Context) error {
		if _, err := s.KnownClaim(claim.Name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("claim %s is still there (%v)", claim.Name, err)
		}
		return nil
	})
}

// A generated claim is for the pod that it was made for, even if the status of
// another pod names it.
func testOwner(t *testing.T) {
	s := newSpace(t, "owner", 1)
	s.Devices(0, numbered(2)...)
	s.Create(builder.Claim("one", s.Want(1)).Template())
	s.Create(s.Pod("owner", builder.FromTemplate("one")))
	s.Running("owner")
	claim := s.Claims("owner")[0]

	// Its own template does not exist, so that nobody but this test sets the name.
	s.Create(s.Pod("thief", builder.FromTemplate("none")))
	s.Eventually("write the name of the other pod's claim", func(ctx context.Context) error {
		pods := cluster.Client.CoreV1().Pods(s.Name)
		thief, err := pods.Get(ctx, "thief", metav1.GetOptions{})
		if err != nil {
			return err
		}
		thief.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "none", ResourceClaimName: &claim.Name}}
		_, err = pods.UpdateStatus(ctx, thief, metav1.UpdateOptions{})
		return err
	})
	s.Waiting("thief", "claim "+s.Name+"/"+claim.Name, "cannot be used", "thief")
	require.Len(t, s.LiveClaim(claim.Name).Status.ReservedFor, 1)
}

func testSharedClaim(t *testing.T) {
	s := newSpace(t, "shared", 2)
	s.Devices(0, numbered(1)...)
	s.Devices(1, numbered(1)...)
	consumers := []string{"first", "second", "third"}
	s.Create(builder.Claim("shared", s.Want(1)).Obj())
	for _, name := range consumers {
		s.Create(s.Pod(name, builder.Uses("shared")))
	}
	s.Running(consumers...)
	require.Len(t, s.LiveClaim("shared").Status.ReservedFor, len(consumers))
	node := s.LivePod("first").Spec.NodeName
	for _, name := range consumers {
		require.Equal(t, node, s.LivePod(name).Spec.NodeName, "the device is on one node only")
	}
	// As long as one pod uses the claim, it keeps the device.
	s.DeletePod("first")
	s.DeletePod("second")
	s.Eventually("roll back two reservations", func(context.Context) error {
		claim, err := s.KnownClaim("shared")
		if err != nil || len(claim.Status.ReservedFor) != 1 || claim.Status.Allocation == nil {
			return fmt.Errorf("claim is %+v (%v)", claim, err)
		}
		return nil
	})
	other := 0
	if node == s.Node(0) {
		other = 1
	}
	s.Create(s.PodOnNode("elsewhere", other, builder.Uses("shared")))
	s.Waiting("elsewhere", "resourceclaim not available on the node: claim "+s.Name+"/shared", "allocated on other nodes")
	// The last one gone, the claim can move.
	s.DeletePod("third")
	s.RunningSoon("elsewhere")
}

func testConsumerLimit(t *testing.T) {
	s := newSpace(t, "limit", 1)
	s.Devices(0, numbered(1)...)
	s.ClaimAndPod("popular", s.Want(1))
	s.Running("popular")
	// Consumers that are no pods are nobody's business but this test's.
	s.UpdateClaimStatus("popular", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = claim.Status.ReservedFor[:1]
		for i := len(claim.Status.ReservedFor); i < resourceapi.ResourceClaimReservedForMaxSize; i++ {
			name := fmt.Sprintf("guest-%d", i)
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, foreignConsumer(name))
		}
	})
	s.Create(s.Pod("late", builder.Uses("popular")))
	s.Waiting("late", "resourceclaim in use: claim "+s.Name+"/popular", "reserved for 256 pods (the limit)")
	s.UpdateClaimStatus("popular", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = claim.Status.ReservedFor[:resourceapi.ResourceClaimReservedForMaxSize-1]
	})
	s.RunningSoon("late")
	require.Len(t, s.LiveClaim("popular").Status.ReservedFor, resourceapi.ResourceClaimReservedForMaxSize)
}

func testClaimBeingDeleted(t *testing.T) {
	s := newSpace(t, "deleted", 1)
	s.Devices(0, numbered(1)...)
	claim := builder.Claim("doomed", s.Want(1)).Obj()
	claim.Finalizers = []string{"example.com/hold"}
	s.Create(claim)
	s.Delete(claim)
	s.Create(s.Pod("doomed", builder.Uses("doomed")))
	s.Waiting("doomed", "claim "+s.Name+"/doomed", "being deleted")
	// It takes no device away.
	s.ClaimAndPod("alive", s.Want(1))
	s.Running("alive")
	s.DeletePod("alive")
	// Once it is gone, there can be a new one of that name.
	harness.Update(t, cluster.Client.ResourceV1().ResourceClaims(s.Name), "doomed", func(claim *resourceapi.ResourceClaim) { claim.Finalizers = nil })
	s.Create(builder.Claim("doomed", s.Want(1)).Obj())
	s.RunningSoon("doomed")
}

// foreignConsumer is a consumer of a claim that is no pod, so that no controller
// takes its reservation away.
func foreignConsumer(name string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{
		APIGroup: "example.com", Resource: "guests", Name: name, UID: types.UID("uid-" + name),
	}
}
