package preemption

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// slowToStop is the handle of a scheduler in which the PreBind of a pod, if it has begun, goes on for a while after it was told to stop.
type slowToStop struct {
	fwk.Handle
	client  kubernetes.Interface
	binding *stopping
}

type stopping struct{ ends time.Time }

func (s *stopping) CancelPod(string) bool { return true }
func (s *stopping) MarkPrebound() bool    { return false }

func (h *slowToStop) ClientSet() kubernetes.Interface           { return h.client }
func (h *slowToStop) GetWaitingPod(types.UID) fwk.WaitingPod    { return nil }
func (h *slowToStop) EventRecorder() events.EventRecorderLogger { return &events.FakeRecorder{} }

func (h *slowToStop) GetPodInPreBind(types.UID) fwk.PodInPreBind {
	if h.binding != nil && time.Now().Before(h.binding.ends) {
		return h.binding
	}
	return nil
}

// TestPreemptorWaitsForThatWhichStops: upstream activates the preemptor when the eviction returns. The victim counts on its node until
// its PreBind has ended, so that a preemptor that is activated before is tried again without a pause.
func TestPreemptorWaitsForThatWhichStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := time.Now().Add(3 * time.Second)
		highest := int32(1000)
		preemptor := groupPreemptor{&gangPreemptor{Pod: builder.Pod("high", func(pod *v1.Pod) { pod.Spec.Priority = &highest })}}
		victim := builder.Pod("low")
		for _, inBackground := range []bool{false, true} {
			begin := time.Now()
			e := &eviction{handle: &slowToStop{binding: &stopping{ends: ends}}, pods: corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), tell: func(*v1.Pod) string { return "" }, gangs: wholeGang{}, leadership: new(lease.Lease), inBackground: inBackground}
			unbound, err := e.evictAll(context.Background(), nodeOf{victim}, preemptor, victim, "Quartermaster")
			require.NoError(t, err)
			require.True(t, unbound)
			if inBackground {
				require.False(t, time.Now().Before(ends), "the PreBind has ended")
			} else {
				require.Equal(t, begin, time.Now(), "a scheduling cycle does not wait")
			}
		}
	})
}

// TestPreemptorWaitsUntilDeletionsAreSeen: an attempt after the answer and before the event would take the victim for a pod that stays.
func TestPreemptorWaitsUntilDeletionsAreSeen(t *testing.T) {
	t.Parallel()
	ends := map[string]func(cache.Store, *v1.Pod){
		"the victim terminates": func(known cache.Store, victim *v1.Pod) {
			terminating := victim.DeepCopy()
			terminating.DeletionTimestamp = ptr.To(metav1.Now())
			_ = known.Update(terminating)
		},
		"the victim is gone": func(known cache.Store, victim *v1.Pod) { _ = known.Delete(victim) },
		"another pod has its name": func(known cache.Store, victim *v1.Pod) {
			other := victim.DeepCopy()
			other.UID = "other"
			_ = known.Update(other)
		},
		"nothing is seen": func(cache.Store, *v1.Pod) {},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				preemptor := groupPreemptor{&gangPreemptor{Pod: builder.Pod("high", func(pod *v1.Pod) { pod.Spec.Priority = ptr.To[int32](1000) })}}
				victim, first := builder.Pod("low"), builder.Pod("lower")
				victim.Spec.NodeName, first.Spec.NodeName = "node", "node"
				victim.UID, first.UID = "low", "lower"
				for inBackground, longest := range map[bool]time.Duration{false: 0, true: longestStop} {
					known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
					require.NoError(t, known.Add(victim))
					require.NoError(t, known.Add(first))
					begin := time.Now()
					time.AfterFunc(3*time.Second, func() { end(known, victim) })
					time.AfterFunc(4*time.Second, func() { end(known, first) })
					e := &eviction{
						handle: &slowToStop{client: fake.NewClientset(victim.DeepCopy(), first.DeepCopy())}, pods: corelisters.NewPodLister(known),
						tell: func(*v1.Pod) string { return "" }, gangs: wholeGang{}, leadership: new(lease.Lease), inBackground: inBackground,
					}
					_, err := e.evictAll(context.Background(), victims{nodeOf{victim}, []*v1.Pod{first, victim}}, preemptor, first, "Quartermaster")
					require.NoError(t, err)
					require.Equal(t, begin, time.Now(), "only the last one waits, for all")
					_, err = e.evictAll(context.Background(), victims{nodeOf{victim}, []*v1.Pod{first, victim}}, preemptor, victim, "Quartermaster")
					require.NoError(t, err)
					if inBackground && name != "nothing is seen" {
						longest = 4*time.Second + lookPoll
						require.GreaterOrEqual(t, time.Since(begin), 4*time.Second)
					}
					require.LessOrEqual(t, time.Since(begin), longest)
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// TestFailedEvictionWaitsForOthers: upstream activates the preemptor when an eviction has failed. Those before it count by then.
func TestFailedEvictionWaitsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		preemptor := groupPreemptor{&gangPreemptor{Pod: builder.Pod("high", func(pod *v1.Pod) { pod.Spec.Priority = ptr.To[int32](1000) })}}
		first, second := builder.Pod("first"), builder.Pod("second")
		first.UID, second.UID = "first", "second"
		known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		require.NoError(t, known.Add(first))
		require.NoError(t, known.Add(second))
		client := fake.NewClientset(first.DeepCopy(), second.DeepCopy())
		client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.(clienttesting.DeleteAction).GetName() == "second", nil, errors.New("a webhook refuses it")
		})
		e := &eviction{handle: &slowToStop{client: client}, pods: corelisters.NewPodLister(known), tell: func(*v1.Pod) string { return "" }, gangs: wholeGang{}, leadership: new(lease.Lease), inBackground: true}
		chosen := victims{nodeOf{first}, []*v1.Pod{first, second}}
		_, err := e.evictAll(context.Background(), chosen, preemptor, first, "Quartermaster")
		require.NoError(t, err)
		begin := time.Now()
		time.AfterFunc(3*time.Second, func() { _ = known.Delete(first) })
		_, err = e.evictAll(context.Background(), chosen, preemptor, second, "Quartermaster")
		require.ErrorContains(t, err, "a webhook refuses it")
		require.InDelta(t, 3, time.Since(begin).Seconds(), lookPoll.Seconds())
		require.Empty(t, e.deleted, "nothing is kept")
	})
}

// notLeading is a process that has lost its lease.
type notLeading struct{}

func (notLeading) Leads() error { return lease.ErrNotLeading }

// TestNoEvictionWithoutLease: a process that was paused while it evicted pods evicts no more of them: the leader may have chosen others.
func TestNoEvictionWithoutLease(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(builder.Pod("low"))
	e := &eviction{handle: &slowToStop{client: client}, leadership: notLeading{}}
	unbound, binding, err := e.evict(t.Context(), nil, nil, builder.Pod("low"), "plugin")
	require.ErrorIs(t, err, lease.ErrNotLeading)
	require.False(t, unbound)
	require.Nil(t, binding)
	require.Empty(t, client.Actions())
}
