package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
	"github.com/quartermaster-dra/quartermaster/test/playground/scenario"
)

// Known waits until the nodes of the space are ready, and the scheduler of its pods has seen that, and all slices, classes and claims
// that exist by now. A test whose pod could get something else before calls it first: devices that the scheduler has not seen yet may
// be the better ones.
func (s *Space) Known() {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), s.Patience)
	defer cancel()
	if err := s.Cluster.known(ctx, s.Profile, fleet.NodePoolLabel+"="+s.Name); err != nil {
		s.tell()
		require.NoError(s.T, err)
	}
}

// known is Space.Known for a schedulerName and nodes with some labels. Each watch shows changes in their order. So a scheduler that
// binds a pod to a node, with a device of a slice, for a claim of a class, has seen what was there before these.
func (c *Cluster) known(ctx context.Context, profile, nodes string) error {
	if err := Poll(ctx, Patience, func(ctx context.Context) error { return c.ready(ctx, nodes) }); err != nil {
		return err
	}
	const namespace = metav1.NamespaceDefault
	if err := scenario.DefaultAccounts(c.Client)(ctx, []string{namespace}); err != nil {
		return err
	}
	name := c.names.unique("beacon")
	driver := name + ".example.com"
	pod := builder.AppPod(name, name, builder.Using(builder.Uses(name)...))
	pod.Spec.NodeSelector = map[string]string{fleet.NodePoolLabel: name}
	pod.Spec.SchedulerName = profile
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // It need not wait until the node is ready.
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	made := []runtime.Object{
		fleet.Node(name, name, nil),
		builder.NodeSlice(name, Numbered(1)...).OfDriver(driver).Obj(),
		builder.Class(name, builder.OfDriver(driver)),
		builder.Claim(name, builder.Request("gpu", name)).Obj(),
		pod,
	}
	for _, object := range made {
		if err := c.create(ctx, namespace, object); err != nil {
			return err
		}
	}
	if err := Poll(ctx, Patience, func(context.Context) error {
		known, err := c.Informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
		if err == nil && known.Spec.NodeName == "" {
			err = fmt.Errorf("pod %s/%s is on no node: %s", namespace, name, Reason(known))
		}
		return err
	}); err != nil {
		return fmt.Errorf("scheduler %s has not seen all objects: %w", profile, err)
	}
	for i := range made { // The pod first.
		if err := c.delete(ctx, namespace, made[len(made)-1-i]); err != nil {
			return err
		}
	}
	return nil
}

// ready is nil if no node is kept from pods because it is new.
func (c *Cluster) ready(ctx context.Context, selector string) error {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return fmt.Errorf("node %s is not ready", node.Name)
			}
		}
	}
	return nil
}

// StaysBound fails the test unless so many pods are bound, and still are after the scheduler has gone on to other pods.
func (s *Space) StaysBound(bound int) {
	s.T.Helper()
	for range 3 { // What was tried just before the first one may need writes that take longer than those for the next.
		require.Equal(s.T, bound, s.Bound())
		s.Known()
	}
	require.Equal(s.T, bound, s.Bound())
}

// Tried waits until the scheduler has tried a pod so many times since now.
func (s *Space) Tried(pod string, times int) {
	s.T.Helper()
	line := fmt.Sprintf("\"Attempting to schedule pod\" pod=%q", s.Name+"/"+pod)
	log, err := os.Open(s.Log)
	require.NoError(s.T, err)
	defer log.Close()
	_, err = log.Seek(0, io.SeekEnd)
	require.NoError(s.T, err)
	var since []byte
	s.Eventually(fmt.Sprintf("try pod %s %d times more", pod, times), func(context.Context) error {
		more, err := io.ReadAll(log)
		since = append(since, more...)
		if n := strings.Count(string(since), line); n < times {
			return fmt.Errorf("it was tried %d times (%v)", n, err)
		}
		return nil
	})
}

// Asleep waits until the scheduler has nothing to do but to wait for events, with so many pods at least.
func (s *Space) Asleep(scheduler *Scheduler, pods int) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("have %d pods wait for an event", pods), func(ctx context.Context) error {
		found, err := scheduler.ReadMetrics(ctx)
		if err != nil {
			return err
		}
		if soon, later := found.Queued("active")+found.Queued("backoff"), found.Queued("unschedulable")+found.Queued("gated"); soon > 0 || later < pods {
			return fmt.Errorf("%d pods are about to be tried, %d wait for an event", soon, later)
		}
		return nil
	})
}
