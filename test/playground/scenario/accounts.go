package scenario

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// defaultAccount is the service account of pods that name none. Admission
// refuses pods until a controller has created it.
const defaultAccount = "default"

// AccountsReady waits until pods can be created in namespaces.
type AccountsReady func(ctx context.Context, namespaces []string) error

// DefaultAccounts waits until each namespace has its default service account.
func DefaultAccounts(client kubernetes.Interface) AccountsReady {
	return func(ctx context.Context, namespaces []string) error {
		for _, namespace := range namespaces {
			err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
				_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, defaultAccount, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return false, nil
				}
				return err == nil, err
			})
			if err != nil {
				return fmt.Errorf("wait for the service account %s/%s: %w; the service account controller has to run", namespace, defaultAccount, err)
			}
		}
		return nil
	}
}
