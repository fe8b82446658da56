package harness

import (
	"context"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/internal/playground/schedulerproc"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
)

// StartGuard runs bin/guard, which registers itself by its address, and returns when it has
// started; it need not decide yet. name is that of its log. ctx bounds only the start.
func (c *Cluster) StartGuard(ctx context.Context, name string, args ...string) (*schedulerproc.Process, error) {
	binary, err := controlplane.FindBinary("guard")
	if err != nil {
		return nil, err
	}
	return schedulerproc.Start(ctx, schedulerproc.Options{
		Binary: binary, Kubeconfig: c.ControlPlane.AdminKubeconfig(), Flags: true,
		LogFile:   filepath.Join(c.Logs, name+".log"),
		ExtraArgs: append([]string{"--register=url", schedulerVerbosity}, args...),
	})
}

// RemoveGuards has API servers ask no guard any more.
func (c *Cluster) RemoveGuards(ctx context.Context) error {
	err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, registration.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
