package rbac

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/manifests"
)

// probe gives the scheduler an occasion to use a right. The occasion makes objects
// of the given name; what it returns is nil once the scheduler has done what the
// right is for.
type probe struct {
	right    string
	occasion func(t *testing.T, e *environment, name string) (done func(context.Context) error)
}

// late reports whether the occasion comes at intervals of the scheduler: ten seconds and more.
func (p probe) late() bool {
	return p.right == "create pods/eviction" || strings.HasPrefix(p.right, "get validatingwebhookconfigurations")
}

// probes are for all rights but those of reflectors. Those of leader election come
// last, as the last of them starts the scheduler anew.
var probes = []probe{
	{"create pods/binding", boundPod},
	{"patch pods/status", toldPod},
	{"delete pods", preemption},
	{"create events.events.k8s.io", toldEvent},
	{"patch events.events.k8s.io", repeatedEvent},
	{"update persistentvolumes", boundVolume},
	{"update persistentvolumeclaims", provisionedVolume},
	{"update resourceclaims.resource.k8s.io", podWithDevice},
	{"update resourceclaims/status.resource.k8s.io", podWithDevice},
	{"update resourceclaims/binding.resource.k8s.io", podWithDevice},
	{"get resourceclaims.resource.k8s.io", podWithConflict},
	{"create resourceclaims.resource.k8s.io", podWithExtendedResource},
	{"delete resourceclaims.resource.k8s.io", extendedResourceAgain},
	{"create pods/eviction", evictedPod},
	{"patch podgroups/status.scheduling.k8s.io", scheduledGroup},
	{"create tokenreviews.authentication.k8s.io", readMetrics},
	{"create subjectaccessreviews.authorization.k8s.io", readMetrics},
	{"get validatingwebhookconfigurations.admissionregistration.k8s.io", registeredGuard},
	{"update leases.coordination.k8s.io", renewedLease},
	{"get leases.coordination.k8s.io", recreatedLease},
	{"create leases.coordination.k8s.io", recreatedLease},
	{"create events", newLeader},
}

func boundPod(t *testing.T, e *environment, name string) func(context.Context) error {
	e.createPod(t, name, nil)
	return e.isBound(name)
}

func (e *environment) isBound(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := e.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("pod %s is not bound: %v", name, pod.Status.Conditions)
		}
		return err
	}
}

// schedules is a pod that is created when it is asked for first.
func (e *environment) schedules(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := e.client.CoreV1().Pods(namespace).Create(ctx, newPod(name), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return e.isBound(name)(ctx)
	}
}

// toldPod is a pod that fits nowhere and is told so.
func toldPod(t *testing.T, e *environment, name string) func(context.Context) error {
	e.createPod(t, name, onlyOn(name))
	return func(ctx context.Context) error {
		pod, err := e.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("pod %s is not told why it waits", name)
	}
}

// preemption is a pod that needs all of a node, where another one is.
func preemption(t *testing.T, e *environment, name string) func(context.Context) error {
	const victimName = "-victim"
	e.createNode(t, name, nil)
	e.createPod(t, name+victimName, needs(name, "1"))
	require.NoError(t, eventually(t.Context(), e.isBound(name+victimName)))
	e.createPod(t, name, needs(name, "1"), func(pod *corev1.Pod) { pod.Spec.PriorityClassName = priorityClass })
	return func(ctx context.Context) error {
		_, err := e.client.CoreV1().Pods(namespace).Get(ctx, name+victimName, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("pod %s is still there", name+victimName)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return e.isBound(name)(ctx)
	}
}

func toldEvent(t *testing.T, e *environment, name string) func(context.Context) error {
	e.createPod(t, name, nil)
	return e.hasEvents(name, 1)
}

// hasEvents is nil if there are so many events about a pod.
func (e *environment) hasEvents(pod string, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		events, err := e.eventsAbout(ctx, pod)
		if err == nil && len(events) < n {
			err = fmt.Errorf("there are %d events about pod %s, want %d", len(events), pod, n)
		}
		return err
	}
}

func (e *environment) eventsAbout(ctx context.Context, pod string) ([]corev1.Event, error) {
	events, err := e.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return nil, err
	}
	return events.Items, nil
}

// repeatedEvent is a pod that does not fit, three times: of the pods in its place only
// some go away. The first attempt changes the pod, by telling it; so only the third
// one is the same event about the same pod again.
func repeatedEvent(t *testing.T, e *environment, name string) func(context.Context) error {
	e.createNode(t, name, nil)
	for i := range 3 {
		other := fmt.Sprintf("%s-%d", name, i)
		e.createPod(t, other, needs(name, "300m"))
		require.NoError(t, eventually(t.Context(), e.isBound(other)))
	}
	e.createPod(t, name, needs(name, "1"))
	for i := range 2 {
		require.NoError(t, eventually(t.Context(), e.hasEvents(name, i+1)))
		require.NoError(t, e.client.CoreV1().Pods(namespace).Delete(t.Context(), fmt.Sprintf("%s-%d", name, i), metav1.DeleteOptions{}))
	}
	return func(ctx context.Context) error {
		events, err := e.eventsAbout(ctx, name)
		for _, event := range events {
			if event.Series != nil {
				return nil
			}
		}
		return cmp.Or(err, fmt.Errorf("no event about pod %s says that it happened again", name))
	}
}

// readMetrics asks for the metrics as somebody new who may read them.
func readMetrics(t *testing.T, e *environment, name string) func(context.Context) error {
	token := e.newToken(t, name)
	return func(ctx context.Context) error {
		status, _, err := e.getMetrics(ctx, token)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("GET /metrics returned status %d", status)
		}
		return err
	}
}

// renewedLease waits for the lease to be renewed once more.
func renewedLease(t *testing.T, e *environment, _ string) func(context.Context) error {
	leases := e.client.CoordinationV1().Leases(manifests.Namespace)
	before, err := leases.Get(t.Context(), manifests.Name, metav1.GetOptions{})
	require.NoError(t, err)
	return func(ctx context.Context) error {
		lease, err := leases.Get(ctx, manifests.Name, metav1.GetOptions{})
		if err == nil && lease.ResourceVersion == before.ResourceVersion {
			err = fmt.Errorf("lease %s is not renewed", manifests.Name)
		}
		return err
	}
}

// recreatedLease deletes the lease.
func recreatedLease(t *testing.T, e *environment, _ string) func(context.Context) error {
	leases := e.client.CoordinationV1().Leases(manifests.Namespace)
	e.deleteLease(t)
	return func(ctx context.Context) error {
		_, err := leases.Get(ctx, manifests.Name, metav1.GetOptions{})
		return err
	}
}

// deleteLease deletes the lease as soon as it is there.
func (e *environment) deleteLease(t *testing.T) {
	t.Helper()
	require.NoError(t, eventually(t.Context(), func(ctx context.Context) error {
		return e.client.CoordinationV1().Leases(manifests.Namespace).Delete(ctx, manifests.Name, metav1.DeleteOptions{})
	}))
}

// newLeader starts the scheduler anew: it tells who leads.
func newLeader(t *testing.T, e *environment, _ string) func(context.Context) error {
	ctx := t.Context()
	events := e.client.CoreV1().Events(manifests.Namespace)
	require.NoError(t, events.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(t, e.scheduler.Stop())
	// Its successor need not wait for the lease to run out.
	e.deleteLease(t)
	require.NoError(t, e.scheduler.Restart(ctx))
	return func(ctx context.Context) error {
		list, err := events.List(ctx, metav1.ListOptions{FieldSelector: "reason=LeaderElection"})
		if err == nil && len(list.Items) == 0 {
			err = fmt.Errorf("no event in %s tells who leads", manifests.Namespace)
		}
		return err
	}
}
