package harness

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counted matches the beginning of kube-scheduler's reason for a number of nodes.
var counted = regexp.MustCompile(`^[0-9]+ `)

// checkReasons returns an error if a reason has a comma: kube-scheduler joins reasons by commas, so that it would read as two.
func checkReasons(message string) error {
	_, reasons, is := strings.Cut(message, " nodes are available: ")
	if !is {
		return nil
	}
	reasons, _, _ = strings.Cut(reasons, ". preemption: ")
	parts := strings.Split(reasons, ", ")
	for _, part := range parts {
		if len(parts) > 1 && !counted.MatchString(part) {
			return fmt.Errorf("%q is no reason that begins with a number of nodes, in %q", part, message)
		}
	}
	return nil
}

// checkReasonsOfPods checks the current reasons of the waiting pods of the space.
func (s *Space) checkReasonsOfPods(ctx context.Context) error {
	pods, err := s.Cluster.Client.CoreV1().Pods(s.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		for _, condition := range pods.Items[i].Status.Conditions {
			if condition.Type != corev1.PodScheduled || condition.Status != corev1.ConditionFalse {
				continue
			}
			if err := checkReasons(condition.Message); err != nil {
				return fmt.Errorf("pod %s: %w", pods.Items[i].Name, err)
			}
		}
	}
	return nil
}
