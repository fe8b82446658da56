package compat

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// A driver's controller that is away for a while goes on where it was.
func TestClassicDriverRestarts(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-driver", 2)
	d := newDriver(s, "one", places(0, 1))
	d.halt()
	d.createClaim("gpu")
	s.Create(s.Pod("user", builder.Uses("gpu")))
	require.Equal(t, []string{s.Node(0), s.Node(1)}, d.asked("user").Spec.PotentialNodes)
	s.Waiting("user", "waiting for the driver of claim "+s.Name+"/gpu")
	d.start()
	s.RunningSoon("user")
	require.Equal(t, s.Node(1), s.LivePod("user").Spec.NodeName)
}

// A scheduler that dies while it waits for drivers leaves the context behind, with which
// the next one goes on.
func TestClassicSchedulerRestarts(t *testing.T) {
	t.Parallel()
	onlyClassic(t)
	s := cluster.NewBareSpace(t, "c-killed", "", 3)
	one, two := newDriver(s, "one", places(1, 0, 1)), newDriver(s, "two", places(0, 1, 1))
	two.halt()
	one.createClaim("first")
	two.createClaim("second")
	scheduler := s.StartScheduler(harness.SchedulerOptions{})
	s.Create(s.Pod("user", builder.Uses("first", "second")))
	before := one.asked("user")
	require.Empty(t, before.Spec.SelectedNode)
	require.NoError(t, scheduler.Kill())
	two.start()
	s.Eventually("have both drivers answer", func(ctx context.Context) error {
		found, err := one.context(ctx, "user")
		if err == nil && (found == nil || len(found.Status.ResourceClaims) < 2) {
			err = fmt.Errorf("they have not: %+v", found)
		}
		return err
	})
	require.NoError(t, scheduler.Restart(t.Context()))
	s.Running("user")
	require.Equal(t, s.Node(2), s.LivePod("user").Spec.NodeName)
	one.contextGone("user")
}

// The context of a pod that is deleted in the middle of everything goes, and is no
// hindrance to the next pod of that name.
func TestClassicPodDeleted(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-deleted", 1)
	d := newDriver(s, "one", places(1))
	d.halt()
	d.createClaim("gpu")
	s.Create(s.Pod("user", builder.Uses("gpu")))
	first := d.asked("user")
	s.DeletePod("user")
	s.Gone("user")
	s.Create(s.Pod("user", builder.Uses("gpu")))
	s.Eventually("have a context of the second pod", func(ctx context.Context) error {
		found, err := d.context(ctx, "user")
		if err == nil && (found == nil || found.UID == first.UID) {
			err = fmt.Errorf("there is only that of the first pod")
		}
		return err
	})
	s.DeletePod("user")
	d.contextGone("user")
	s.Create(s.Pod("last", builder.Uses("gpu")))
	d.asked("last")
	d.start()
	s.RunningSoon("last")
}

// A context that somebody deletes while the pod waits is made again.
func TestClassicContextDeleted(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-context", 2)
	d := newDriver(s, "one", places(0, 1))
	d.halt()
	d.createClaim("gpu")
	s.Create(s.Pod("user", builder.Uses("gpu")))
	first := d.asked("user")
	s.Waiting("user", "waiting for the driver of claim "+s.Name+"/gpu")
	require.NoError(t, d.resource("podschedulingcontexts").Delete(t.Context(), "user", metav1.DeleteOptions{}))
	s.Soon("make the context again", func(ctx context.Context) error {
		found, err := d.context(ctx, "user")
		if err == nil && (found == nil || found.UID == first.UID) {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	d.start()
	s.RunningSoon("user")
	require.Equal(t, s.Node(1), s.LivePod("user").Spec.NodeName)
}

// runningOfDriver waits until so many pods run and so many wait, and returns the names of
// those that run.
func runningOfDriver(s *harness.Space, running, waiting int) []string {
	s.T.Helper()
	var names []string
	s.Eventually(fmt.Sprintf("have %d pods running and %d waiting", running, waiting), func(context.Context) error {
		names = nil
		waits := 0
		for _, pod := range s.Pods() {
			switch {
			case pod.DeletionTimestamp != nil:
				return fmt.Errorf("pod %s has not gone yet", pod.Name)
			case s.Runs(pod) == nil:
				names = append(names, pod.Name)
			case harness.Waits(pod) == nil:
				waits++
			}
		}
		if len(names) != running || waits != waiting {
			return fmt.Errorf("%d pods run and %d wait", len(names), waits)
		}
		return nil
	})
	return names
}
