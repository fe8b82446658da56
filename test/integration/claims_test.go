package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/playground/workload"
)

// Where claims come from, who may use them, and when that ends.
func TestClaims(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"several claims by name":   testNamedClaims,
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

func testNamedClaims(t *testing.T) {
	s := newSpace(t, "named", 1)
	s.devices(0, numbered(8)...)
	s.create(one("left", s.want(1)), one("right", s.want(3)), s.pod("both", uses("left", "right")))
	s.claimAndPod("single", s.want(2))
	s.running("both", "single")
	require.Len(t, s.claims("both"), 2)
	require.Len(t, s.results("both"), 4)
	require.Len(t, s.results("single"), 2)
	pod := s.livePod("both")
	for _, name := range []string{"left", "right"} {
		claim := s.liveClaim(name)
		require.Contains(t, claim.Finalizers, resourceapi.Finalizer)
		require.Empty(t, cmp.Diff([]resourceapi.ResourceClaimConsumerReference{
			{Resource: "pods", Name: "both", UID: pod.UID},
		}, claim.Status.ReservedFor))
	}
}

func testTemplates(t *testing.T) {
	s := newSpace(t, "template", 1)
	s.devices(0, numbered(2)...)
	s.create(workload.Template("one", workload.Request("gpu", s.want(1))))
	s.createPods("user", 2)
	s.runningAndWaiting(2, 0)
	claim := s.claims("user-000")[0]
	require.True(t, metav1.IsControlledBy(claim, s.livePod("user-000")), "the claim belongs to its pod")

	// The claim goes with its pod, and the device is free again.
	s.create(s.pod("next", fromTemplate("one")))
	s.waiting("next", "request gpu", "2 devices match, but all are held by other claims")
	s.deletePod("user-000")
	s.runningSoon("next")
	s.eventually("delete the claim of the pod that is gone", func(context.Context) error {
		if _, err := knownClaim(s.name, claim.Name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("claim %s is still there (%v)", claim.Name, err)
		}
		return nil
	})
}

// A generated claim is for the pod that it was made for, even if the status of
// another pod names it.
func testOwner(t *testing.T) {
	s := newSpace(t, "owner", 1)
	s.devices(0, numbered(2)...)
	s.create(workload.Template("one", workload.Request("gpu", s.want(1))))
	s.create(s.pod("owner", fromTemplate("one")))
	s.running("owner")
	claim := s.claims("owner")[0]

	// Its own template does not exist, so that nobody but this test sets the name.
	s.create(s.pod("thief", fromTemplate("none")))
	s.eventually("write the name of the other pod's claim", func(ctx context.Context) error {
		pods := cluster.client.CoreV1().Pods(s.name)
		thief, err := pods.Get(ctx, "thief", metav1.GetOptions{})
		if err != nil {
			return err
		}
		thief.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "none", ResourceClaimName: &claim.Name}}
		_, err = pods.UpdateStatus(ctx, thief, metav1.UpdateOptions{})
		return err
	})
	s.waiting("thief", "claim "+s.name+"/"+claim.Name, "cannot be used", "thief")
	require.Len(t, s.liveClaim(claim.Name).Status.ReservedFor, 1)
}

func testSharedClaim(t *testing.T) {
	s := newSpace(t, "shared", 2)
	s.devices(0, numbered(1)...)
	s.devices(1, numbered(1)...)
	consumers := []string{"first", "second", "third"}
	s.create(one("shared", s.want(1)))
	for _, name := range consumers {
		s.create(s.pod(name, uses("shared")))
	}
	s.running(consumers...)
	require.Len(t, s.liveClaim("shared").Status.ReservedFor, len(consumers))
	node := s.livePod("first").Spec.NodeName
	for _, name := range consumers {
		require.Equal(t, node, s.livePod(name).Spec.NodeName, "the device is on one node only")
	}
	// As long as one pod uses the claim, it keeps the device.
	s.deletePod("first")
	s.deletePod("second")
	s.eventually("take back two reservations", func(context.Context) error {
		claim, err := knownClaim(s.name, "shared")
		if err != nil || len(claim.Status.ReservedFor) != 1 || claim.Status.Allocation == nil {
			return fmt.Errorf("claim is %+v (%v)", claim, err)
		}
		return nil
	})
	other := 0
	if node == s.node(0) {
		other = 1
	}
	s.create(s.podOnNode("elsewhere", other, uses("shared")))
	s.waiting("elsewhere", "claim "+s.name+"/shared", "allocated on other nodes")
	// The last one gone, the claim can move.
	s.deletePod("third")
	s.runningSoon("elsewhere")
}

func testConsumerLimit(t *testing.T) {
	s := newSpace(t, "limit", 1)
	s.devices(0, numbered(1)...)
	s.claimAndPod("popular", s.want(1))
	s.running("popular")
	// Consumers that are no pods are nobody's business but this test's.
	s.updateClaimStatus("popular", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = claim.Status.ReservedFor[:1]
		for i := len(claim.Status.ReservedFor); i < resourceapi.ResourceClaimReservedForMaxSize; i++ {
			name := fmt.Sprintf("guest-%d", i)
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, foreignConsumer(name))
		}
	})
	s.create(s.pod("late", uses("popular")))
	s.waiting("late", "claim "+s.name+"/popular", "reserved for 256 pods, which is the limit")
	s.updateClaimStatus("popular", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = claim.Status.ReservedFor[:resourceapi.ResourceClaimReservedForMaxSize-1]
	})
	s.runningSoon("late")
	require.Len(t, s.liveClaim("popular").Status.ReservedFor, resourceapi.ResourceClaimReservedForMaxSize)
}

func testClaimBeingDeleted(t *testing.T) {
	s := newSpace(t, "deleted", 1)
	s.devices(0, numbered(1)...)
	claim := one("doomed", s.want(1))
	claim.Finalizers = []string{"example.com/hold"}
	s.create(claim)
	s.delete(claim)
	s.create(s.pod("doomed", uses("doomed")))
	s.waiting("doomed", "claim "+s.name+"/doomed", "being deleted")
	// It takes no device away.
	s.claimAndPod("alive", s.want(1))
	s.running("alive")
	s.deletePod("alive")
	// Once it is gone, there can be a new one of that name.
	live := s.liveClaim("doomed")
	live.Finalizers = nil
	_, err := cluster.client.ResourceV1().ResourceClaims(s.name).Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.create(one("doomed", s.want(1)))
	s.runningSoon("doomed")
}

// foreignConsumer is a consumer of a claim that is no pod, so that no controller
// takes its reservation away.
func foreignConsumer(name string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{
		APIGroup: "example.com", Resource: "guests", Name: name, UID: types.UID("uid-" + name),
	}
}
