package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

const (
	pollInterval = 25 * time.Millisecond
	// patience is how long anything may take that has to happen.
	patience = 60 * time.Second
	// wakeUpTime is how long a waiting pod may sleep after what it waits for has
	// happened. Without an event that wakes it, it would be tried again after
	// five minutes.
	wakeUpTime = 30 * time.Second
)

// eventually polls until the condition returns nil, and fails the test with its
// last error if that takes longer than patience.
func (s *space) eventually(what string, condition func(context.Context) error) {
	s.t.Helper()
	s.within(patience, what, condition)
}

// soon is eventually for what an event has to bring about.
func (s *space) soon(what string, condition func(context.Context) error) {
	s.t.Helper()
	s.within(wakeUpTime, what, condition)
}

func (s *space) within(limit time.Duration, what string, condition func(context.Context) error) {
	s.t.Helper()
	if err := poll(s.t.Context(), limit, condition); err != nil {
		require.FailNow(s.t, fmt.Sprintf("did not %s within %s: %v", what, limit, err), s.describe())
	}
}

// poll returns nil as soon as the condition does, or its last error.
func poll(ctx context.Context, limit time.Duration, condition func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, limit, true, func(ctx context.Context) (bool, error) {
		// The last answer counts, not that the time was over while asking.
		if err := condition(ctx); err == nil || ctx.Err() == nil {
			last = err
		}
		return last == nil, nil
	})
	if err != nil && last == nil {
		return err
	}
	return last
}

// pods returns the pods of the space as the informer knows them.
func (s *space) pods() []*corev1.Pod {
	s.t.Helper()
	pods, err := cluster.informers.Core().V1().Pods().Lister().Pods(s.name).List(labels.Everything())
	require.NoError(s.t, err)
	return pods
}

func knownPod(namespace, name string) (*corev1.Pod, error) {
	return cluster.informers.Core().V1().Pods().Lister().Pods(namespace).Get(name)
}

func knownClaim(namespace, name string) (*resourceapi.ResourceClaim, error) {
	return cluster.informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(namespace).Get(name)
}

// running waits until all pods run, each with claims that are allocated and
// reserved for it.
func (s *space) running(pods ...string) {
	s.t.Helper()
	s.eventually("run "+strings.Join(pods, ", "), s.allRun(pods))
}

// runningSoon is running for pods that an event has to wake.
func (s *space) runningSoon(pods ...string) {
	s.t.Helper()
	s.soon("run "+strings.Join(pods, ", "), s.allRun(pods))
}

func (s *space) allRun(pods []string) func(context.Context) error {
	return func(context.Context) error {
		for _, name := range pods {
			pod, err := knownPod(s.name, name)
			if err != nil {
				return err
			}
			if err := runs(pod); err != nil {
				return err
			}
		}
		return nil
	}
}

// runs is nil if the pod runs on a node with its claims.
func runs(pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("pod %s is %s on node %q: %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName, reason(pod))
	}
	claims, err := claimsOf(pod)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim, false) {
			return fmt.Errorf("pod %s runs, but claim %s is not allocated and reserved for it", pod.Name, claim.Name)
		}
	}
	return nil
}

// claimsOf returns the claims of a pod in the order of its spec.
func claimsOf(pod *corev1.Pod) ([]*resourceapi.ResourceClaim, error) {
	var claims []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if name == nil {
			continue
		}
		claim, err := knownClaim(pod.Namespace, *name)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// reason is what the pod's PodScheduled condition says, "" if it is true or missing.
func reason(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// waiting waits until the pod is told to wait, for a reason with all the parts.
func (s *space) waiting(pod string, parts ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("see pod %s wait because of %q", pod, parts), func(context.Context) error {
		found, err := knownPod(s.name, pod)
		if err != nil {
			return err
		}
		return waits(found, parts...)
	})
}

// waits is nil if the pod has no node, for a reason with all the parts.
func waits(pod *corev1.Pod, parts ...string) error {
	if pod.Spec.NodeName != "" {
		return fmt.Errorf("pod %s runs on node %s", pod.Name, pod.Spec.NodeName)
	}
	text := reason(pod)
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

// checkSettled waits until the checker has nothing to complain about in this
// space, and checks how that state came to be.
func (s *space) checkSettled() {
	if s.t.Failed() {
		return // Tests end where they fail; what they leave behind is no news.
	}
	err := poll(context.Background(), patience, func(ctx context.Context) error {
		violations, err := checker.Check(ctx, cluster.client, checker.Options{Settled: true})
		if err != nil {
			return err
		}
		var own []checker.Violation
		for _, violation := range violations {
			if strings.Contains(violation.String(), s.name) {
				own = append(own, violation)
			}
		}
		if len(own) > 0 {
			return fmt.Errorf("what must always hold does not:\n%s", checker.Format(own))
		}
		return watched.check(s.name)
	})
	if err != nil {
		s.t.Errorf("%v\n%s", err, s.describe())
	}
}
