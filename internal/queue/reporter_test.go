package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// scheduler is what a UnqueuedReporter needs of one.
type scheduler struct {
	fwk.Handle
	client   *fake.Clientset
	factory  informers.SharedInformerFactory
	recorder *events.FakeRecorder
	// activated counts pods.
	activated atomic.Int64
}

// Activate implements fwk.Handle.
func (s *scheduler) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	s.activated.Add(int64(len(pods)))
}

func (s *scheduler) ClientSet() kubernetes.Interface                        { return s.client }
func (s *scheduler) SharedInformerFactory() informers.SharedInformerFactory { return s.factory }
func (s *scheduler) EventRecorder() events.EventRecorderLogger              { return s.recorder }

// size is how many pods are going to be looked at.
func (g *UnqueuedReporter) size() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return len(g.pending)
}

// errMissing is what the pods lack.
var errMissing = errors.New("claim c does not exist")

// lacking keeps out each pod for the same reason.
type lacking struct{ error }

func (l lacking) Lacks(*v1.Pod) error { return l.error }

// kept runs a test with a pod that was kept out twice. The server refuses so many patches.
func kept(t *testing.T, refused int64, test func(t *testing.T, s *scheduler, g *UnqueuedReporter, pods func(*v1.Pod))) {
	synctest.Test(t, func(t *testing.T) {
		pod := builder.Pod("p")
		s := &scheduler{client: fake.NewClientset(pod), recorder: events.NewFakeRecorder(10)}
		var patches atomic.Int64
		s.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return patches.Add(1) <= refused, nil, apierrors.NewForbidden(v1.Resource("pods"), "p", errors.New("not now"))
		})
		s.factory = informers.NewSharedInformerFactory(s.client, 0)
		store := s.factory.Core().V1().Pods().Informer().GetIndexer()
		require.NoError(t, store.Add(pod))
		g := New(s, lacking{errMissing}, NewClaimsMade(s.factory.Core().V1().Pods().Lister(), Delay), NewPods(store))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go g.Run(ctx)
		g.Add(pod)
		g.Add(pod)
		require.Equal(t, 1, g.size())
		test(t, s, g, func(pod *v1.Pod) {
			if pod == nil {
				require.NoError(t, store.Replace(nil, ""))
			} else {
				require.NoError(t, store.Update(pod))
			}
		})
	})
}

// TestNominationEnds: a pod whose claim is gone keeps no room on a node, but one that only waits for its turn does.
func TestNominationEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		missing error
		want    string
	}{
		"its claim is gone":     {errMissing, ""},
		"its turn will come":    {Turn{Since: time.Now().Add(-time.Hour)}, "n1"},
		"it was told that once": {errMissing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept(t, 0, func(t *testing.T, s *scheduler, g *UnqueuedReporter, now func(*v1.Pod)) {
				g.kept = lacking{test.missing}
				nominated := builder.Pod("p")
				nominated.Status.NominatedNodeName = "n1"
				if name == "it was told that once" {
					nominated.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: errMissing.Error()}}
				}
				_, err := s.client.CoreV1().Pods(nominated.Namespace).UpdateStatus(t.Context(), nominated, metav1.UpdateOptions{})
				require.NoError(t, err)
				now(nominated)
				time.Sleep(Delay)
				synctest.Wait()
				pod, err := s.client.CoreV1().Pods(nominated.Namespace).Get(t.Context(), "p", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, test.want, pod.Status.NominatedNodeName)
			})
		})
	}
}

func TestKeepsQuiet(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*v1.Pod) *v1.Pod{
		"pod gone":                       func(*v1.Pod) *v1.Pod { return nil },
		"pod being deleted":              func(pod *v1.Pod) *v1.Pod { pod.DeletionTimestamp = &pod.CreationTimestamp; return pod },
		"pod bound by another scheduler": func(pod *v1.Pod) *v1.Pod { pod.Spec.NodeName = "n1"; return pod },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept(t, 0, func(t *testing.T, s *scheduler, g *UnqueuedReporter, now func(*v1.Pod)) {
				now(meanwhile(builder.Pod("p")))
				time.Sleep(Delay)
				synctest.Wait()
				require.Zero(t, g.size(), "nobody looks at it again by itself")
				require.Empty(t, s.recorder.Events)
				require.Empty(t, s.client.Actions(), "the status of the pod was changed")
			})
		})
	}
}

// TestOutdatedReason: the pod is let in and tried while the reporter writes that it lacks something. What the attempt wrote is lost, so
// there is another attempt, unless the message has changed since. The informer may show that late.
func TestOutdatedReason(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]int64{errMissing.Error(): 1, "no devices": 0} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			kept(t, 0, func(t *testing.T, s *scheduler, g *UnqueuedReporter, now func(*v1.Pod)) {
				time.Sleep(Delay)
				synctest.Wait()
				require.Len(t, s.recorder.Events, 1)
				require.Equal(t, 1, g.size(), "it looks once more")
				g.tried.Begin(builder.Pod("p"))
				g.kept = lacking{nil}
				now(builder.Pod("p")) // The reporter sees the fields that were written before.
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, 1, g.size(), "the informer does not have what was written")
				require.Zero(t, s.activated.Load())
				now(saying(message))
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Zero(t, g.size())
				require.Equal(t, want, s.activated.Load())
			})
		})
	}
}

// saying returns a later version of the pod, with a message.
func saying(message string) *v1.Pod {
	pod := builder.Pod("p")
	pod.ResourceVersion = "2"
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message}}
	return pod
}

// TestSaidOnce: a message is not written again because the informer shows it late, or because a replica of another release says it
// otherwise, but because the pod was kept out again.
func TestSaidOnce(t *testing.T) {
	t.Parallel()
	kept(t, 0, func(t *testing.T, s *scheduler, g *UnqueuedReporter, now func(*v1.Pod)) {
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, s.client.Actions(), 1)
		require.Zero(t, g.size())
		g.Add(builder.Pod("p"))
		time.Sleep(Delay)
		now(saying("claim is missing"))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, s.client.Actions(), 2)
	})
}

func TestTriesAgain(t *testing.T) {
	t.Parallel()
	kept(t, 3, func(t *testing.T, s *scheduler, _ *UnqueuedReporter, _ func(*v1.Pod)) {
		time.Sleep(Delay + time.Second)
		synctest.Wait()
		require.Len(t, s.recorder.Events, 1, "reported once")
		pod, err := s.client.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), "default", "p")
		require.NoError(t, err)
		require.Equal(t, errMissing.Error(), pod.(*v1.Pod).Status.Conditions[0].Message)
	})
}
