package hold

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// oneScheduler leads or does not, and schedules the pods without another scheduler.
type oneScheduler struct{ standsBy atomic.Bool }

func (s *oneScheduler) Leads() error {
	if s.standsBy.Load() {
		return errors.New("stands by")
	}
	return nil
}

func (*oneScheduler) Schedules(name string) bool { return name == "" }

// TestConditions: a pod says what is held for it, and until when it was; what is in use may change each second, and is written once a minute.
func TestConditions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, r := newTestCluster(4, 4), NewRegistry()
		one := c.waiting("w", 0, epoch, 1, 2)
		other := c.waiting("x", 0, epoch, 1, 1)
		pod, theirs := waitingPod("w-0", epoch), waitingPod("x-0", epoch)
		theirs.Spec.SchedulerName = "theirs"
		client, scheduler := fake.NewClientset(pod, theirs), &oneScheduler{}
		scheduler.standsBy.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.PodChanged(nil, pod)
		r.PodChanged(nil, theirs)
		usage := c.usage()
		go r.WriteConditions(ctx, client, usage, scheduler)
		writes := func() int { return len(client.Actions()) }
		shows := func(status v1.ConditionStatus, text string, since time.Time) {
			t.Helper()
			stored, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			client.ClearActions()
			_, held := podutil.GetPodCondition(&stored.Status, dra.DevicesHeld)
			require.NotNil(t, held)
			require.Equal(t, status, held.Status)
			require.Contains(t, held.Message, text)
			require.True(t, since.IsZero() || held.LastTransitionTime.Time.Equal(since.Truncate(time.Second)), "%s, not %s", held.LastTransitionTime, since)
			r.PodChanged(pod, stored)
		}
		tick := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		tick(time.Minute)
		require.Zero(t, writes(), "nothing is held")
		was := pod.DeepCopy()
		was.Status.Conditions = append(was.Status.Conditions, v1.PodCondition{Type: dra.DevicesHeld, Status: v1.ConditionTrue})
		r.PodChanged(pod, was)
		scheduler.standsBy.Store(false)
		tick(time.Minute)
		require.Zero(t, writes(), "what is held is not known before the first plan")
		scheduler.standsBy.Store(true)
		r.PodChanged(was, pod)
		hold := holdOn(one, "node-0", "a", "b")
		r.Replace([]*Hold{hold, holdOn(other, "node-1", "c")}, epoch)
		tick(time.Minute)
		require.Zero(t, writes(), "it does not lead")

		scheduler.standsBy.Store(false)
		tick(conditionPause)
		began := time.Now()
		require.Equal(t, 1, writes(), "the other pod is another scheduler's")
		shows(v1.ConditionTrue, "1 device on node-0 is held for pod ns/w which has waited since 12:00", began)
		tick(time.Minute)
		require.Zero(t, writes(), "nothing has changed")

		hold = holdOn(one, "node-0", "b", "a")
		hold.Begin = epoch.Add(3 * time.Hour)
		hold.Uses["w-0"][0].Allocation.Devices.Results = append(hold.Uses["w-0"][0].Allocation.Devices.Results, allocationOf("node-0", []string{"z"}).Devices.Results...)
		r.Replace([]*Hold{hold}, epoch)
		tick(conditionPause)
		require.Equal(t, 1, writes())
		shows(v1.ConditionTrue, "2 devices on node-0 are held", began)
		for i := range 12 {
			r.Replace([]*Hold{holdOn(one, []string{"node-1", "node-2"}[i%2], "b")}, epoch)
			tick(conditionPause)
		}
		require.LessOrEqual(t, writes(), 2, "it moves all the time")

		r.Replace(nil, epoch)
		tick(time.Minute)
		shows(v1.ConditionFalse, "no devices are held for the pod now", time.Time{})
		tick(time.Minute)
		require.Zero(t, writes())

		r.Replace([]*Hold{holdOn(one, "node-0", "a")}, epoch)
		tick(time.Minute)
		shows(v1.ConditionTrue, "1 device on node-0", time.Time{})
		stored, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		r.PodChanged(stored, bound(stored, "node-0"))
		tick(time.Minute)
		shows(v1.ConditionFalse, "no devices are held for the pod now", time.Time{})
		r.PodChanged(bound(stored, "node-0"), nil)
		require.Empty(t, r.left)
	})
}

// TestAnnouncement: what is in use and what is free adds up.
func TestAnnouncement(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4)
	one := c.waiting("w", 0, epoch, 1, 2)
	h := holdOn(one, "node-0", "gpu-00")
	h.Uses["w-0"] = append(h.Uses["w-0"], useOf("w-0", "node-0", []string{"gpu-01"}), useOf("w-0", "node-0", []string{"gpu-02"}))
	for busy, want := range []string{"; all of them are free", "; 1 of them is in use", "; 2 of them are in use"} {
		if busy > 0 {
			require.True(t, c.start(newJob(strings.Repeat("j", busy), 1, time.Hour, 0), c.usage()))
		}
		require.Equal(t, "3 devices on node-0 are held for pod ns/w which has waited since 12:00 UTC"+want, h.Announcement(c.usage()))
		h.Begin = epoch.Add(time.Hour)
		if busy > 0 {
			require.Contains(t, h.Announcement(c.usage()), " in use and the last one is expected to be free at about 13:00 UTC")
		}
		h.Begin = time.Time{}
	}
}
