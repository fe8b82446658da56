package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PriorityClass creates a priority class of a value and the default policy, unless there is one of that name, and waits
// until pods may use it.
func (c *Cluster) PriorityClass(t *testing.T, name string, value int32) {
	t.Helper()
	c.CreatePriorityClass(t, &schedulingapi.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
}

// CreatePriorityClass is PriorityClass for any class. The API server refuses pods of a class until its own informer has
// seen that, which takes a moment on a busy machine.
func (c *Cluster) CreatePriorityClass(t *testing.T, class *schedulingapi.PriorityClass) {
	t.Helper()
	_, err := c.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "of-" + class.Name},
		Spec:       corev1.PodSpec{PriorityClassName: class.Name, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	require.NoError(t, Poll(t.Context(), Patience, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "no PriorityClass") {
			return fmt.Errorf("priority class %s is not known to the API server's admission yet: %w", class.Name, err)
		}
		return nil
	}))
}
