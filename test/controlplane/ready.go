package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	// readyTimeout bounds each of the waits below. They take a few
	// seconds; a busy machine may need many times that.
	readyTimeout = 2 * time.Minute
	readyPoll    = 50 * time.Millisecond
)

// waitAPIServer waits until the API server has finished its start: it serves
// all APIs and has written RBAC's default roles.
func (c *ControlPlane) waitAPIServer(ctx context.Context, server *component) error {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return err
	}
	return waitFor(ctx, server, readyPoll, "become ready", func(ctx context.Context) error {
		var status int
		body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status).Raw()
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d: %s", status, body)
		}
		return err
	})
}

// waitControllers waits until pods can be created: the default namespace has
// its service account, which admission demands.
func (c *ControlPlane) waitControllers(ctx context.Context, process *component) error {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return err
	}
	return waitFor(ctx, process, readyPoll, "make the default service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// waitFor polls check until it succeeds. It gives up when the component ends,
// when ctx does, and after readyTimeout.
func waitFor(ctx context.Context, c *component, poll time.Duration, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		if ended, err := c.ended(); ended {
			return false, err
		}
		err := check(ctx)
		if err != nil && ctx.Err() != nil && last != nil {
			return false, nil // It failed for lack of time: the failure before says more.
		}
		last = err
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to %s: %w", c.name, what, errors.Join(err, last))
	}
	return nil
}
