package queue

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
)

// model is a scheduler with a queue like kube-scheduler's: sorted by priority and by when pods were created, not by when
// they were activated.
type model struct {
	*Turns
	// lock is that of the scheduling queue.
	lock   sync.Mutex
	active []*v1.Pod
	// size is how many there are; Hold asks with the lock held.
	size atomic.Int64
	// kept are the pods that Hold has kept out.
	kept    map[types.UID]*v1.Pod
	leading atomic.Bool
	// takes is how long attempts for pods of a namespace take, writing how long it takes to write why there is no node.
	takes   map[string]time.Duration
	writing time.Duration
	// rejects are namespaces whose pods get no node, and unseen those whose pods another plugin rejects first.
	rejects, unseen []string
	// waited is from a pod's creation to its first attempt, tried are the namespaces in the order of attempts.
	waited map[string][]time.Duration
	tried  []string
	// letIn is when a pod was activated last.
	letIn time.Time
	// broken has the queue say that it has many pods.
	broken bool
}

func newModel(takes map[string]time.Duration, rejects ...string) *model {
	m := &model{takes: takes, rejects: rejects, kept: make(map[types.UID]*v1.Pod), waited: make(map[string][]time.Duration)}
	m.leading.Store(true)
	m.Turns = NewTurns(m)
	return m
}

func (m *model) Leads() error {
	if !m.leading.Load() {
		return lease.ErrNotLeading
	}
	return nil
}

func (m *model) Active() int {
	if m.broken {
		return int(m.size.Load()) + 10
	}
	return int(m.size.Load())
}

func (m *model) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.letIn = time.Now()
	for _, pod := range pods {
		if m.kept[pod.UID] != nil {
			m.queue(pod)
		}
	}
}

// queue needs the lock.
func (m *model) queue(pod *v1.Pod) {
	if m.Hold(pod) != nil {
		m.kept[pod.UID] = pod
		return
	}
	delete(m.kept, pod.UID)
	m.active = append(m.active, pod)
	m.size.Store(int64(len(m.active)))
}

func podIn(namespace string, number int, priority int32) *v1.Pod {
	name := fmt.Sprintf("%s-%05d", namespace, number)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now()},
		Spec:       v1.PodSpec{Priority: ptr.To(priority)},
	}
}

func (m *model) add(pods ...*v1.Pod) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, pod := range pods {
		m.queue(pod)
	}
}

// create adds pods of a namespace.
func (m *model) create(namespace string, from, count int) {
	for i := range count {
		m.add(podIn(namespace, from+i, 0))
	}
}

// remove deletes a pod that is not being tried.
func (m *model) remove(pod *v1.Pod) {
	m.lock.Lock()
	delete(m.kept, pod.UID)
	m.active = slices.DeleteFunc(m.active, func(other *v1.Pod) bool { return other == pod })
	m.size.Store(int64(len(m.active)))
	m.lock.Unlock()
	m.Forget(pod.UID)
}

func (m *model) pop() *v1.Pod {
	m.lock.Lock()
	defer m.lock.Unlock()
	if len(m.active) == 0 {
		return nil
	}
	first := slices.MinFunc(m.active, func(a, b *v1.Pod) int {
		if d := corev1helpers.PodPriority(b) - corev1helpers.PodPriority(a); d != 0 {
			return int(d)
		}
		return a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time)
	})
	m.active = slices.DeleteFunc(m.active, func(pod *v1.Pod) bool { return pod == first })
	m.size.Store(int64(len(m.active)))
	return first
}

// try tries a pod.
func (m *model) try(pod *v1.Pod) {
	m.tried = append(m.tried, pod.Namespace)
	m.waited[pod.Namespace] = append(m.waited[pod.Namespace], time.Since(pod.CreationTimestamp.Time))
	if !slices.Contains(m.unseen, pod.Namespace) {
		m.Begin(pod, true)
	}
	time.Sleep(m.takes[pod.Namespace])
	if slices.Contains(m.rejects, pod.Namespace) {
		m.Rejected(pod)
		time.Sleep(m.writing)
	} else {
		m.Placed(pod)
	}
}

// run tries pods until a moment, and returns for how long it had none to try although some were held.
func (m *model) run(end time.Time) (idle time.Duration) {
	for time.Now().Before(end) {
		if pod := m.pop(); pod != nil {
			m.try(pod)
			continue
		}
		if m.keeps() > 0 {
			idle += time.Millisecond
		}
		time.Sleep(time.Millisecond)
	}
	return idle
}

// known makes a namespace's attempts known.
func (m *model) known(namespaces ...string) {
	for _, namespace := range namespaces {
		for i := range 8 {
			m.try(podIn(namespace, 100_000+i, 0))
		}
	}
	m.Begin(podIn("none", 0, 0), false)
	clear(m.waited)
	m.tried = nil
}

// stream creates a pod of a namespace from time to time.
func (m *model) stream(namespace string, every time.Duration, count int) {
	for i := range count {
		m.create(namespace, i, 1)
		time.Sleep(every)
	}
}

func (m *model) attempts(namespace string) int { return len(m.waited[namespace]) }

// waits is how many namespaces have pods whose turn may come.
func (m *model) waits() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, own := range m.later {
		if !own.due.After(time.Now().Add(-2 * look)) {
			return 1
		}
	}
	return len(m.waiting)
}

func (m *model) keeps() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return len(m.kept)
}

// isQuiet fails unless nothing is held or runs.
func (m *model) isQuiet(t *testing.T) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	require.Zero(t, m.keeps())
	require.Empty(t, m.held)
	require.Empty(t, m.waiting)
	require.Empty(t, m.later)
	require.Nil(t, m.timer)
	for _, n := range m.namespaces {
		require.Empty(t, n.line)
	}
}

func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
