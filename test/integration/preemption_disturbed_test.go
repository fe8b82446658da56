package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// nominated waits until a pod is nominated for a node.
func nominated(s *harness.Space, pod string) {
	s.T.Helper()
	s.Eventually("pod "+pod+" is nominated", func(ctx context.Context) error {
		found, err := cluster.Client.CoreV1().Pods(s.Name).Get(ctx, pod, metav1.GetOptions{})
		if err == nil && found.Status.NominatedNodeName == "" {
			err = errors.New("it is not")
		}
		return err
	})
}

// ending waits until pods are being deleted, or gone.
func ending(s *harness.Space, pods ...string) {
	s.T.Helper()
	for _, pod := range pods {
		s.Eventually("pod "+pod+" is being deleted", func(ctx context.Context) error {
			found, err := cluster.Client.CoreV1().Pods(s.Name).Get(ctx, pod, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil && found.DeletionTimestamp == nil:
				return errors.New("it is not")
			}
			return err
		})
	}
}

// TestKeptForThePreemptor: the device goes to the pod for which it was made free, not to one of lower priority that
// came first, nor to a later one that does not ask for a node in particular.
func TestKeptForThePreemptor(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-kept", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(), builder.Claim("two", s.Want(2)).Template(),
		endsAfter(s.Pod("quick", builder.FromTemplate("device")), "100ms"), endsAfter(s.Pod("slow", builder.FromTemplate("device")), "4s"))
	s.Running("quick", "slow")
	s.Create(s.Pod("waiting", builder.FromTemplate("device")))
	s.Waiting("waiting", "2 held by other claims")
	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("two")), important))
	nominated(s, "preemptor")
	s.Create(s.Pod("late", builder.FromTemplate("device")))
	s.Gone("quick") // Its device is free from now on, and that of the other one is not.
	s.Waiting("late", "held by other claims")
	s.Gone("slow")
	s.Running("preemptor")
	require.Equal(t, 1, s.Bound(), "nobody has got a device in between")
}

// TestVictimIsEndingAlready: a pod that is being deleted anyway is enough.
func TestVictimIsEndingAlready(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-ending", 1)
	s.Devices(0, harness.Numbered(2)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(),
		endsAfter(s.Pod("ending", builder.FromTemplate("device")), "3s"))
	s.Running("ending")
	time.Sleep(time.Second) // By kube-scheduler's own order, the older one is more important.
	s.Create(s.Pod("other", builder.FromTemplate("device")))
	s.Running("other")
	s.DeletePod("ending")
	ending(s, "ending")
	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("device")), important))
	s.Running("preemptor", "other")
}

// TestPreemptorIsDeleted: what was kept for a pod goes to others when it is deleted before it is bound.
func TestPreemptorIsDeleted(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-deleted", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(), endsAfter(s.Pod("victim", builder.FromTemplate("device")), "2s"))
	s.Running("victim")
	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("device")), important))
	nominated(s, "preemptor")
	s.Create(s.Pod("waiting", builder.FromTemplate("device")))
	s.Waiting("waiting", "held by another claim")
	s.DeletePod("preemptor")
	s.Gone("victim")
	s.Gone("preemptor")
	s.Running("waiting")
}

// TestMoreImportantPreemptorComesLater: a pod of still higher priority may take what is kept.
func TestMoreImportantPreemptorComesLater(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-urgent", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(), endsAfter(s.Pod("victim", builder.FromTemplate("device")), "2s"))
	s.Running("victim")
	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("device")), important))
	nominated(s, "preemptor")
	s.Create(ofClass(s.Pod("urgent", builder.FromTemplate("device")), urgent))
	s.Running("urgent")
	s.Waiting("preemptor", "held by another claim")
}

// TestPreemptorsSchedulerIsKilled: a scheduler is killed after the eviction. The next one finds the nomination, evicts nobody
// else, and gives nothing away, also if the victims are on other nodes.
func TestPreemptorsSchedulerIsKilled(t *testing.T) {
	t.Parallel()
	createClasses(t)
	s := cluster.NewSpace(t, "preempt-killed", "", 2)
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	s.Create(builder.Slice(s.Name).OfDriver(s.Driver).OnAllNodes().Devices(harness.Numbered(2)...).Obj())
	s.Create(builder.Claim("device", s.Want(1)).Template(),
		endsAfter(s.PodOnNode("one", 1, builder.FromTemplate("device")), "5s"),
		endsAfter(s.PodOnNode("other", 1, builder.FromTemplate("device")), "5s"))
	s.Running("one", "other")
	s.Create(ofClass(s.PodOnNode("preemptor", 0, builder.FromTemplate("device")), important))
	nominated(s, "preemptor")
	require.NoError(t, scheduler.Kill())
	s.Create(s.PodOnNode("low", 0, builder.FromTemplate("device")))
	s.StartScheduler(harness.SchedulerOptions{Name: s.Name + "-again"})
	s.Running("preemptor")
	s.Eventually("one of the two stays", func(context.Context) error {
		if left := s.Bound(); left != 2 {
			return fmt.Errorf("%d pods are on nodes", left)
		}
		return nil
	})
	s.Waiting("low", "held by other claims")
}

// TestTwoSchedulersPreempt: pods of another scheduler of this kind do not get what is kept, either.
func TestTwoSchedulersPreempt(t *testing.T) {
	t.Parallel()
	s := newPreemptionSpace(t, "preempt-two-schedulers", 1)
	other := cluster.NewSpace(t, "preempt-other-scheduler", "", 0)
	other.StartScheduler(harness.SchedulerOptions{})
	s.Devices(0, harness.Numbered(2)...)
	s.Create(builder.Claim("device", s.Want(1)).Template(), builder.Claim("two", s.Want(2)).Template(),
		endsAfter(s.Pod("quick", builder.FromTemplate("device")), "100ms"), endsAfter(s.Pod("slow", builder.FromTemplate("device")), "4s"))
	s.Running("quick", "slow")
	s.Create(ofClass(s.Pod("preemptor", builder.FromTemplate("two")), important))
	nominated(s, "preemptor")
	ending(s, "slow") // Until then the other scheduler cannot know that it goes as well.
	late := s.Pod("late", builder.FromTemplate("device"))
	late.Spec.SchedulerName = other.Profile
	s.Create(late)
	s.Gone("quick")
	s.Gone("slow")
	s.Running("preemptor")
	require.Empty(t, s.LivePod("late").Spec.NodeName)
}

// TestManyPreemptAtOnce has 100 pods of high priority come to 50 nodes with 250 of low priority.
func TestManyPreemptAtOnce(t *testing.T) {
	harness.Long(t, "100 pods evict as many of 250")
	t.Parallel()
	const nodes, each, high = 50, 5, 100
	s := newPreemptionSpace(t, "preempt-many", nodes)
	s.Patience = 4 * time.Minute
	for i := range nodes {
		s.Devices(i, harness.Numbered(each)...)
	}
	s.Create(builder.Claim("device", s.Want(1)).Template())
	var low, preemptors []string
	for i := range nodes * each {
		low = append(low, fmt.Sprintf("low-%d", i))
		s.Create(endsAfter(s.Pod(low[i], builder.FromTemplate("device")), fmt.Sprintf("%dms", i%7*100)))
	}
	s.Running(low...)
	for i := range high {
		preemptors = append(preemptors, fmt.Sprintf("high-%d", i))
		s.Create(ofClass(s.Pod(preemptors[i], builder.FromTemplate("device")), important))
	}
	start := time.Now()
	s.Running(preemptors...)
	t.Logf("%d pods of high priority run after %v", high, time.Since(start))
	gone := 0
	for _, name := range low {
		if pod, err := s.KnownPod(name); err != nil || pod.DeletionTimestamp != nil {
			gone++
		}
	}
	require.LessOrEqual(t, gone, high, "no more victims than devices needed")
	s.NothingLeaked()
}
