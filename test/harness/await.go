package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

const (
	pollInterval = 25 * time.Millisecond
	// Patience is the default time limit for anything that has to happen. It is long
	// enough for a busy machine, but less than the five minutes after which the scheduler
	// retries a pod without an event.
	Patience = 3 * time.Minute
	// TakeoverPatience is Patience where one leader follows another. The new leader leaves the
	// old one's reservations alone during takeoverPause, a minute as shipped, and a pod that
	// lost a device to another one may have to wait for its end.
	TakeoverPatience = Patience + time.Minute
	// WakeUpTime is the time limit for waking a waiting pod after the event that it
	// waits for, whatever the patience of the space. Without the event, the pod would
	// be retried after five minutes.
	WakeUpTime = Patience
)

// Eventually polls until the condition returns nil. It fails the test with the
// condition's last error after the patience of the space.
func (s *Space) Eventually(what string, condition func(context.Context) error) {
	s.T.Helper()
	s.Within(s.Patience, what, condition)
}

// Soon is Eventually, with WakeUpTime as the limit, for conditions that an event has to cause.
func (s *Space) Soon(what string, condition func(context.Context) error) {
	s.T.Helper()
	s.Within(WakeUpTime, what, condition)
}

// Within is Eventually with another limit. It may be called when the test is being cleaned up.
func (s *Space) Within(limit time.Duration, what string, condition func(context.Context) error) {
	s.T.Helper()
	if err := Poll(context.WithoutCancel(s.T.Context()), limit, condition); err != nil {
		s.tell()
		require.FailNow(s.T, fmt.Sprintf("did not %s within %s: %v", what, limit, err))
	}
}

// Poll returns nil as soon as the condition does, or its last error.
func Poll(ctx context.Context, limit time.Duration, condition func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, limit, true, func(ctx context.Context) (bool, error) {
		// The last answer of the condition counts, and no error for a deadline that passed or would pass.
		err := condition(ctx)
		if err == nil || ctx.Err() == nil && !strings.Contains(err.Error(), "would exceed context deadline") {
			last = err
		}
		return err == nil, nil
	})
	if err != nil && last == nil {
		return err
	}
	return last
}

// Pods returns the pods of the space as the informer knows them.
func (s *Space) Pods() []*corev1.Pod {
	s.T.Helper()
	pods, err := s.Cluster.Informers.Core().V1().Pods().Lister().Pods(s.Name).List(labels.Everything())
	require.NoError(s.T, err)
	return pods
}

// KnownPod returns a pod of the space as the informer knows it.
func (s *Space) KnownPod(name string) (*corev1.Pod, error) {
	return s.Cluster.Informers.Core().V1().Pods().Lister().Pods(s.Name).Get(name)
}

// KnownClaim returns a claim of the space as the informer knows it.
func (s *Space) KnownClaim(name string) (*resourceapi.ResourceClaim, error) {
	return s.Cluster.Informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(s.Name).Get(name)
}

// Running waits until all pods run, each with its claims allocated and reserved
// for it.
func (s *Space) Running(pods ...string) {
	s.T.Helper()
	s.Eventually("run "+strings.Join(pods, ", "), s.allRun(pods))
}

// RunningSoon is Running for pods that an event has to wake.
func (s *Space) RunningSoon(pods ...string) {
	s.T.Helper()
	s.Soon("run "+strings.Join(pods, ", "), s.allRun(pods))
}

// allRun is the condition of Running.
func (s *Space) allRun(pods []string) func(context.Context) error {
	return func(context.Context) error {
		for _, name := range pods {
			pod, err := s.KnownPod(name)
			if err != nil {
				return err
			}
			if err := s.Runs(pod); err != nil {
				s.remindKwok(pod)
				return err
			}
		}
		return nil
	}
}

// remindAfter is the time after which kwok is reminded of a pod that does not start.
const remindAfter = 10 * time.Second

// remindKwok changes a pod that is on a node and does not start. If kwok sees the binding before it manages the new node,
// it never starts the pod without a later change of the pod.
func (s *Space) remindKwok(pod *corev1.Pod) {
	since := pod.CreationTimestamp.Time
	if last, err := time.Parse(time.RFC3339, pod.Annotations["example.com/reminded"]); err == nil {
		since = last
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending || time.Since(since) < remindAfter {
		return
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/reminded":%q}}}`, time.Now().Format(time.RFC3339))
	// If this fails, the next poll tries again.
	_, _ = s.Cluster.Client.CoreV1().Pods(pod.Namespace).Patch(s.T.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
}

// Runs returns an error unless a pod runs on a node with its claims.
func (s *Space) Runs(pod *corev1.Pod) error {
	if pod.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("pod %s is %s on node %q: %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName, Reason(pod))
	}
	return s.Placed(pod)
}

// Placed returns an error unless a pod is on a node and all its claims are allocated and
// reserved for it or its PodGroup. A scheduler can do no more for a pod.
func (s *Space) Placed(pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" {
		return fmt.Errorf("pod %s is on no node: %s", pod.Name, Reason(pod))
	}
	claims, err := s.ClaimsOf(pod)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim, true) {
			return fmt.Errorf("pod %s is on a node, but claim %s is not allocated and reserved for it", pod.Name, claim.Name)
		}
	}
	return nil
}

// ClaimsOf returns the claims of a pod as the informer knows them, in the order
// of the pod's spec, and then the claim for its extended resources.
func (s *Space) ClaimsOf(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error) {
	var claims []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if name == nil {
			continue
		}
		claim, err := s.KnownClaim(*name)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		claims = append(claims, claim)
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		claim, err := s.KnownClaim(extended.ResourceClaimName)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// Reason returns the message of the pod's PodScheduled condition, "" unless the condition is false.
func Reason(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// Waiting waits until the pod has no node and its reason has all the parts.
func (s *Space) Waiting(pod string, parts ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("see pod %s wait because of %q", pod, parts), func(context.Context) error {
		found, err := s.KnownPod(pod)
		if err != nil {
			return err
		}
		return Waits(found, parts...)
	})
}

// Waits returns an error unless the pod has no node and its reason has all the parts.
func Waits(pod *corev1.Pod, parts ...string) error {
	if pod.Spec.NodeName != "" {
		return fmt.Errorf("pod %s runs on node %s", pod.Name, pod.Spec.NodeName)
	}
	text := Reason(pod)
	if text == "" {
		return fmt.Errorf("pod %s does not say why it waits", pod.Name)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("pod %s waits, but without %q in the reason: %s", pod.Name, part, text)
		}
	}
	return nil
}
