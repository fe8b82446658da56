package karpenter

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// endsLate is when KWOK lets a pod end that is deleted.
const endsLate = "pod-delete.stage.kwok.x-k8s.io/delay"

// testPreemption: a pod of a high priority evicts others although Karpenter would add a node. It waits for the node if its class has the
// preemptionPolicy Never.
func testPreemption(t *testing.T) {
	s := newSpace(t, "preemption", poolOptions{})
	cluster.CreatePriorityClass(t, &schedulingapi.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter-patient"}, Value: 1000, PreemptionPolicy: new(corev1.PreemptNever),
	})
	cluster.PriorityClass(t, "karpenter-urgent", 1000)
	s.Create(s.Pod("low", builder.FromTemplate(one)))
	s.Running("low")
	s.Create(s.important("patient", "karpenter-patient"))
	s.Running("patient", "low")
	s.claimedOnce(2)
	node := s.node("low").Name
	s.Create(s.important("urgent", "karpenter-urgent"))
	s.Running("urgent")
	require.Equal(t, node, s.node("urgent").Name)
	s.Gone("low")
	s.Create(s.Pod("later", builder.FromTemplate(one)))
	s.Running("later")
	s.claimedOnce(3)
}

// testPreemptionDelay: a pod of a high priority evicts nobody if a node comes first. It evicts others if none can come.
func testPreemptionDelay(t *testing.T) {
	s := newSpace(t, "delay", poolOptions{pool: "limits: {nodes: 2}", kind: "gpu-one", args: map[string]any{"preemptionDelay": "30s"}})
	cluster.PriorityClass(t, "karpenter-urgent", 1000)
	s.Create(s.Pod("low", builder.FromTemplate(one)))
	s.Running("low")
	s.Create(s.important("urgent", "karpenter-urgent"))
	s.Waiting("urgent", "an autoscaler has 30s to add a node")
	s.Running("low", "urgent")
	s.claimedOnce(2)
	s.Create(s.important("third", "karpenter-urgent"))
	s.Running("third", "urgent")
	s.Gone("low")
	s.claimedOnce(2)
}

// testNominated: Karpenter adds no node for a pod that is nominated for one, and knows that the victim's device is not free. Another pod
// gets a node.
func testNominated(t *testing.T) {
	s := newSpace(t, "nominated", poolOptions{})
	cluster.PriorityClass(t, "karpenter-urgent", 1000)
	s.Create(s.slowPod("victim"))
	s.Running("victim")
	node, device := s.node("victim"), s.DeviceNames("victim")
	urgent := s.important("urgent", "karpenter-urgent")
	urgent.Spec.NodeSelector[corev1.LabelHostname] = node.Labels[corev1.LabelHostname] // It would take the other pod's node.
	s.Create(urgent)
	s.nominated("urgent", node.Name)
	s.Create(s.Pod("other", builder.FromTemplate(one)))
	s.Running("other")
	s.claimedOnce(2)
	s.end("victim")
	s.Running("urgent", "other")
	require.Equal(t, device, s.DeviceNames("urgent"))
	s.claimedOnce(2)
}

// testNominatedRemoved: to Karpenter, a node is empty whose last pod is being deleted, also if a pod is nominated for it. It removes the
// node. The pod gives its nomination up, and runs on another node.
func testNominatedRemoved(t *testing.T) {
	s := newSpace(t, "removed", poolOptions{})
	cluster.PriorityClass(t, "karpenter-urgent", 1000)
	s.Create(s.slowPod("victim"))
	s.Running("victim")
	node := s.node("victim").Name
	s.Create(s.important("urgent", "karpenter-urgent"))
	s.nominated("urgent", node)
	s.consolidate()
	s.told(metav1.NamespaceDefault, node, "DisruptionTerminating", "Empty")
	s.keepNodes()
	s.Running("urgent")
	require.NotEqual(t, node, s.node("urgent").Name)
	s.end("victim")
	s.nodes(1)
}

// testHeld: to Karpenter, a device is free that is held for a pod that has waited for long. It adds no node for another pod until the
// device is in use.
func testHeld(t *testing.T) {
	s := newSpace(t, "held", poolOptions{kind: "gpu-one", args: harness.HoldArgs("1s")})
	s.AddNode(0, nil)
	s.Devices(0, harness.Numbered(2)...)
	s.Known()
	s.Create(s.ending("first", one))
	s.Running("first")
	s.Create(s.ending("large", two))
	s.told(s.Name, "large", "FailedScheduling", "no instance type can satisfy the allocation")
	s.Eventually("hold devices", func(ctx context.Context) error {
		metrics, err := s.scheduler.ReadMetrics(ctx)
		if held := metrics.Sum("quartermaster_held_devices"); err == nil && held != 2 {
			err = fmt.Errorf("%v devices are held", held)
		}
		return err
	})
	s.Create(s.ending("small", one))
	s.Waiting("small", "held for pod "+s.Name+"/large")
	s.told(s.Name, "small", "Nominated", s.Node(0))
	s.claimedOnce(0)
	s.DeletePod("first")
	s.Running("large", "small")
	require.Equal(t, s.Node(0), s.node("large").Name)
	s.claimedOnce(1)
}

// ending makes a pod that is not restarted, so that devices are held that become free when it ends.
func (s *space) ending(name, template string) *corev1.Pod {
	pod := s.Pod(name, builder.FromTemplate(template))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return pod
}

// important makes a pod of a priority class that wants a device.
func (s *space) important(name, class string) *corev1.Pod {
	pod := s.Pod(name, builder.FromTemplate(one))
	pod.Spec.PriorityClassName = class
	return pod
}

// slowPod makes a pod that wants a device, and keeps it until end if it is deleted.
func (s *space) slowPod(name string) *corev1.Pod {
	pod := s.Pod(name, builder.FromTemplate(one))
	pod.Annotations = map[string]string{endsLate: "24h"}
	return pod
}

// end ends a pod that is being deleted, unless its node's end has ended it.
func (s *space) end(pod string) {
	s.T.Helper()
	err := cluster.Client.CoreV1().Pods(s.Name).Delete(s.T.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if !apierrors.IsNotFound(err) {
		require.NoError(s.T, err)
	}
	s.Gone(pod)
}

// nominated waits until a pod is nominated for a node.
func (s *space) nominated(pod, node string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("nominate pod %s for node %s", pod, node), func(context.Context) error {
		found, err := s.KnownPod(pod)
		if err != nil {
			return err
		}
		if found.Status.NominatedNodeName != node {
			return fmt.Errorf("it is nominated for %q", found.Status.NominatedNodeName)
		}
		return nil
	})
}
