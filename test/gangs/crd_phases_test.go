package gangs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// member is a pod of a PodGroup.
type member struct {
	t      *testing.T
	client kubernetes.Interface
	pod    *corev1.Pod
}

// newMember makes a pod that names a PodGroup. It is deleted at the end of the test.
func newMember(t *testing.T, namespace, group, name string) *member {
	t.Helper()
	client, _ := admin(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.PodGroupLabel: group}},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	m := &member{t: t, client: client}
	eventually(t, func(ctx context.Context) (err error) { // A new namespace has no service account for a moment.
		m.pod, err = client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		_ = client.CoreV1().Pods(namespace).Delete(context.Background(), name, *metav1.NewDeleteOptions(0))
	})
	return m
}

// enter has the pod in a phase, as its kubelet writes it.
func (m *member) enter(phase corev1.PodPhase) {
	m.t.Helper()
	harness.UpdateStatus(m.t, m.client.CoreV1().Pods(m.pod.Namespace), m.pod.Name, func(pod *corev1.Pod) { pod.Status.Phase = phase })
}

func (m *member) delete() {
	m.t.Helper()
	require.NoError(m.t, m.client.CoreV1().Pods(m.pod.Namespace).Delete(m.t.Context(), m.pod.Name, *metav1.NewDeleteOptions(0)))
}

// observed is a PodGroup with the phases that it was in.
type observed struct {
	t     *testing.T
	mutex sync.Mutex
	// phases are all that the server has stored, one after the other.
	phases []v1alpha1.PodGroupPhase
	now    v1alpha1.PodGroupStatus
}

// observe creates a PodGroup and watches it until the test ends.
func observe(t *testing.T, name string, minMember int64) *observed {
	t.Helper()
	_, untyped := admin(t)
	created := create(t, object(name, minMember))
	o := &observed{t: t}
	watcher, err := untyped.Resource(podGroups).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: created.ResourceVersion,
	})
	require.NoError(t, err)
	t.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			if changed, ok := event.Object.(*unstructured.Unstructured); ok && changed.GetKind() == "PodGroup" {
				o.take(changed)
			}
		}
	}()
	return o
}

func (o *observed) take(changed *unstructured.Unstructured) {
	group := &v1alpha1.PodGroup{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, group); err != nil {
		o.t.Error(err)
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.now = group.Status
	if len(o.phases) == 0 || o.phases[len(o.phases)-1] != group.Status.Phase {
		o.phases = append(o.phases, group.Status.Phase)
	}
}

// await waits until the group is in that phase with so many pods that run, have succeeded and have failed, and returns
// since when it has been scheduled.
func (o *observed) await(phase v1alpha1.PodGroupPhase, running, succeeded, failed int32) (started metav1.Time) {
	o.t.Helper()
	want := v1alpha1.PodGroupStatus{Phase: phase, Running: running, Succeeded: succeeded, Failed: failed}
	eventually(o.t, func(context.Context) error {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		now := o.now
		started, now.ScheduleStartTime = now.ScheduleStartTime, metav1.Time{}
		if now != want {
			return fmt.Errorf("the status is %+v, want %+v; phases so far: %v", now, want, o.phases)
		}
		return nil
	})
	return started
}

func (o *observed) passed(phases ...v1alpha1.PodGroupPhase) {
	o.t.Helper()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	require.Equal(o.t, phases, slices.DeleteFunc(slices.Clone(o.phases), func(p v1alpha1.PodGroupPhase) bool { return p == "" }))
}

const (
	pending, scheduling, running = v1alpha1.PodGroupPending, v1alpha1.PodGroupScheduling, v1alpha1.PodGroupRunning
	finished, failed             = v1alpha1.PodGroupFinished, v1alpha1.PodGroupFailed
)

func TestPhases(t *testing.T) {
	install(t)
	follow(t)
	t.Run("all pods succeed", func(t *testing.T) {
		group := observe(t, "succeeds", 2)
		require.Zero(t, group.await(pending, 0, 0, 0))
		a := newMember(t, namespace, "succeeds", "succeeds-a")
		b := newMember(t, namespace, "succeeds", "succeeds-b")
		require.NotZero(t, group.await(scheduling, 0, 0, 0))
		a.enter(corev1.PodRunning)
		group.await(scheduling, 1, 0, 0)
		b.enter(corev1.PodRunning)
		group.await(running, 2, 0, 0)
		a.enter(corev1.PodSucceeded)
		group.await(running, 1, 1, 0)
		b.enter(corev1.PodSucceeded)
		group.await(finished, 0, 2, 0)
		group.passed(pending, scheduling, running, finished)
	})
	t.Run("a pod fails", func(t *testing.T) {
		group := observe(t, "fails", 2)
		a, b := newMember(t, namespace, "fails", "fails-a"), newMember(t, namespace, "fails", "fails-b")
		group.await(scheduling, 0, 0, 0)
		a.enter(corev1.PodRunning)
		b.enter(corev1.PodRunning)
		group.await(running, 2, 0, 0)
		b.enter(corev1.PodFailed)
		group.await(failed, 1, 0, 1)
		group.passed(pending, scheduling, running, failed)
	})
	t.Run("a pod goes and another one comes", func(t *testing.T) {
		group := observe(t, "replaced", 2)
		a, b := newMember(t, namespace, "replaced", "replaced-a"), newMember(t, namespace, "replaced", "replaced-b")
		group.await(scheduling, 0, 0, 0)
		a.enter(corev1.PodRunning)
		b.enter(corev1.PodRunning)
		group.await(running, 2, 0, 0)
		b.delete()
		group.await(pending, 1, 0, 0)
		c := newMember(t, namespace, "replaced", "replaced-c")
		group.await(scheduling, 1, 0, 0)
		c.enter(corev1.PodRunning)
		group.await(running, 2, 0, 0)
		group.passed(pending, scheduling, running, pending, scheduling, running)
	})
	t.Run("pods of another namespace do not count", func(t *testing.T) {
		client, _ := admin(t)
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		newMember(t, "other", "alone", "stranger").enter(corev1.PodFailed)
		group := observe(t, "alone", 1)
		newMember(t, namespace, "alone", "alone-a").enter(corev1.PodRunning)
		group.await(running, 1, 0, 0)
		group.passed(pending, scheduling, running)
	})
}
