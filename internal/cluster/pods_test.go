package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// byItself and byGroup are pod p and PodGroup gang as consumers.
var (
	byItself = resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: "uid-p"}
	byGroup  = resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "gang", UID: "uid-gang"}
)

// runs returns a pod of a group that is on a node and uses claim c.
func runs(name, group string) *v1.Pod {
	pod := builder.Pod(name, builder.InGroup(group), builder.Using(builder.Uses("c")...))
	pod.UID, pod.Spec.NodeName = types.UID("uid-"+name), "n1"
	return pod
}

func claimReserved(device string, consumers ...resourceapi.ResourceClaimConsumerReference) *resourceapi.ResourceClaim {
	claim := builder.Claim("c", builder.Request("gpu", "gpu")).Allocated("n1", device)
	claim.Status.ReservedFor = consumers
	return claim
}

// amongPods runs a test with a state that follows a client.
func amongPods(t *testing.T, objects []runtime.Object, test func(t *testing.T, ctx context.Context, s *State, client kubernetes.Interface)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(objects...)
		factory := informers.NewSharedInformerFactory(client, 0)
		s, err := New(factory, client, structured.Features{}, false, new(lease.Lease))
		require.NoError(t, err)
		follow(t, s, factory)
		ctx, cancel := context.WithCancel(context.Background())
		defer factory.Shutdown()
		defer cancel()
		factory.StartWithContext(ctx)
		synctest.Wait()
		test(t, ctx, s, client)
	})
}

// TestPodsThatRunWithDeletedClaims: what a claim had stays in use after it was deleted while pods run with it, those of its PodGroup as well.
func TestPodsThatRunWithDeletedClaims(t *testing.T) {
	t.Parallel()
	for name, consumers := range map[string][]resourceapi.ResourceClaimConsumerReference{
		"pod": {byItself}, "group": {byGroup}, "both": {byGroup, byItself},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := runs("p", "gang")
			objects := []runtime.Object{claimReserved("gpu-0", consumers...), pod, runs("stranger", "other")}
			amongPods(t, objects, func(t *testing.T, ctx context.Context, s *State, client kubernetes.Interface) {
				w := &woken{}
				s.Wakes(w)
				require.NoError(t, client.ResourceV1().ResourceClaims("default").Delete(ctx, "c", metav1.DeleteOptions{}))
				synctest.Wait()
				pool := inventory.PoolID{Driver: builder.Driver, Name: "n1"}
				require.Equal(t, 1, s.Ledger.Pool(pool).Len())
				require.Empty(t, w.devices)
				ended := pod.DeepCopy()
				ended.Status.Phase = v1.PodSucceeded
				_, err := client.CoreV1().Pods("default").UpdateStatus(ctx, ended, metav1.UpdateOptions{})
				require.NoError(t, err)
				synctest.Wait()
				require.Zero(t, s.Ledger.Pool(pool).Len())
				require.Equal(t, []map[inventory.PoolID][]string{{pool: {"gpu-0"}}}, w.devices)
			})
		})
	}
}

// TestPodThatHadEndedWhenItWasDeleted: what a deletion brings need not be what was known of the pod: it may have ended since then.
func TestPodThatHadEndedWhenItWasDeleted(t *testing.T) {
	t.Parallel()
	amongPods(t, []runtime.Object{claimReserved("gpu-0", byItself), runs("p", "gang")}, func(t *testing.T, ctx context.Context, s *State, client kubernetes.Interface) {
		require.NoError(t, client.ResourceV1().ResourceClaims("default").Delete(ctx, "c", metav1.DeleteOptions{}))
		synctest.Wait()
		pool := inventory.PoolID{Driver: builder.Driver, Name: "n1"}
		require.True(t, s.Ledger.Pool(pool).Uses("gpu-0"))
		ended := runs("p", "gang")
		ended.Status.Phase = v1.PodSucceeded
		s.PodChanged(informer.Event[v1.Pod]{Before: ended})
		require.Zero(t, s.Ledger.Pool(pool).Len())
	})
}

// TestMemberThatGoesOn: a pod that runs on and on keeps the device of the claim with which it runs, not those of all claims of that
// name that its PodGroup has had since.
func TestMemberThatGoesOn(t *testing.T) {
	t.Parallel()
	lasting := runs("p", "gang")
	lasting.Status.Phase = v1.PodRunning
	amongPods(t, []runtime.Object{lasting}, func(t *testing.T, ctx context.Context, s *State, client kubernetes.Interface) {
		claims, pods := client.ResourceV1().ResourceClaims("default"), client.CoreV1().Pods("default")
		for i := range 5 {
			claim := claimReserved(fmt.Sprint("gpu-", i), byGroup)
			claim.UID, claim.ResourceVersion = types.UID(fmt.Sprint("uid-c", i)), fmt.Sprint(10+i)
			_, err := claims.Create(ctx, claim, metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = pods.Create(ctx, runs("passing", "gang"), metav1.CreateOptions{})
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, claims.Delete(ctx, "c", metav1.DeleteOptions{}))
			synctest.Wait()
			require.NoError(t, pods.Delete(ctx, "passing", metav1.DeleteOptions{}))
			synctest.Wait()
		}
		usage := s.Ledger.Pool(inventory.PoolID{Driver: builder.Driver, Name: "n1"})
		require.Equal(t, 1, usage.Len())
		require.True(t, usage.Uses("gpu-0"))
	})
}

func TestRunning(t *testing.T) {
	t.Parallel()
	waits, ended, started, stranger := runs("waits", "gang"), runs("ended", "gang"), runs("started", "gang"), runs("stranger", "other")
	waits.Spec.NodeName, ended.Status.Phase = "", v1.PodFailed
	started.Status.Conditions = []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}}
	objects := []runtime.Object{waits, ended, started, stranger, runs("p", "gang")}
	amongPods(t, objects, func(t *testing.T, _ context.Context, s *State, _ kubernetes.Interface) {
		claim, otherKind := ledger.RefTo(claimReserved("gpu-0")), byGroup
		otherKind.APIGroup = "example.com"
		require.ElementsMatch(t, []ledger.Runner{{Pod: "uid-started", Prepared: true}, {Pod: "uid-p"}},
			s.Ledger.Running(claim, []resourceapi.ResourceClaimConsumerReference{byGroup}))
		require.Equal(t, []ledger.Runner{{Pod: "uid-p"}}, s.Ledger.Running(claim, []resourceapi.ResourceClaimConsumerReference{byItself, otherKind}))
	})
}

// TestLateEventOfWaitingPod: an update of a pod that still waited comes after the informer's store has the pod on its node, and after its
// claim was deleted. The devices stay in use.
func TestLateEventOfWaitingPod(t *testing.T) {
	t.Parallel()
	pod := runs("p", "gang")
	amongPods(t, []runtime.Object{claimReserved("gpu-0", byItself), pod}, func(t *testing.T, ctx context.Context, s *State, client kubernetes.Interface) {
		require.NoError(t, client.ResourceV1().ResourceClaims("default").Delete(ctx, "c", metav1.DeleteOptions{}))
		synctest.Wait()
		waits := pod.DeepCopy()
		waits.Spec.NodeName = ""
		s.PodChanged(informer.Event[v1.Pod]{Before: waits, After: waits})
		require.Equal(t, 1, s.Ledger.Pool(inventory.PoolID{Driver: builder.Driver, Name: "n1"}).Len())
	})
}
