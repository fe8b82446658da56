package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
	"github.com/quartermaster-dra/quartermaster/test/playground/scheduler"
)

// guardName is the name of the guard's namespace, ServiceAccount and Lease.
const guardName = "quartermaster-guard"

// InstallGuard makes API servers ask guards, and grants the rights that guards and our schedulers have in the
// manifests. API servers reach no guard until one registers its address.
func (c *Cluster) InstallGuard(ctx context.Context, policy admissionregistrationv1.FailurePolicyType) error {
	return c.installGuard(ctx, manifests.Guard, policy)
}

// InstallGuardInScheduler is InstallGuard for our schedulers with GuardArgs.
func (c *Cluster) InstallGuardInScheduler(ctx context.Context, policy admissionregistrationv1.FailurePolicyType) error {
	return c.installGuard(ctx, manifests.GuardInScheduler, policy)
}

func (c *Cluster) installGuard(ctx context.Context, overlay string, policy admissionregistrationv1.FailurePolicyType) error {
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: guardName}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := manifests.Apply(ctx, c.ControlPlane.AdminConfig(), overlay, manifests.ApplyOptions{RBACOnly: true}); err != nil {
		return err
	}
	nowhere := "https://127.0.0.1:1"
	_, err = c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
		registration.New(admissionregistrationv1.WebhookClientConfig{URL: &nowhere}, guardName+"/"+guardName, policy), metav1.CreateOptions{})
	return err
}

// StartGuard runs bin/guard with the identity of the manifests, and returns when it has started. The
// guard need not decide yet. For the first guard of the cluster, StartGuard also waits until it decides,
// which takes the duration of a Lease. name is the name of its log. ctx bounds only the start.
func (c *Cluster) StartGuard(ctx context.Context, name string, args ...string) (*scheduler.Process, error) {
	return c.StartGuardOf(ctx, "guard", name, args...)
}

// StartGuardOf is StartGuard with another executable in bin.
func (c *Cluster) StartGuardOf(ctx context.Context, executable, name string, args ...string) (*scheduler.Process, error) {
	binary, err := controlplane.FindBinary(executable)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.ControlPlane.ServiceAccountKubeconfig(ctx, guardName, guardName)
	if err != nil {
		return nil, err
	}
	_, err = c.Client.CoordinationV1().Leases(guardName).Get(ctx, election.LeaseName, metav1.GetOptions{})
	first := apierrors.IsNotFound(err)
	process, err := scheduler.Start(ctx, scheduler.Options{
		Binary: binary, Kubeconfig: kubeconfig, Flags: true,
		LogFile:   filepath.Join(c.Logs, name+".log"),
		ExtraArgs: append([]string{"--register=url", schedulerVerbosity}, args...),
	})
	if err != nil || !first {
		return process, err
	}
	if err := c.awaitGuard(ctx); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return process, nil
}

// awaitGuard waits until the Lease shows that a guard decides.
func (c *Cluster) awaitGuard(ctx context.Context) error {
	return Poll(ctx, Patience, func(ctx context.Context) error {
		lease, err := c.Client.CoordinationV1().Leases(guardName).Get(ctx, election.LeaseName, metav1.GetOptions{})
		if err == nil && lease.Annotations[election.DecidesAnnotation] == "" {
			err = fmt.Errorf("the holder of Lease %s/%s does not decide yet", guardName, election.LeaseName)
		}
		return err
	})
}

// UseGuard makes API servers ask a guard until the test ends, and refuse everything without it.
func (c *Cluster) UseGuard(t *testing.T, name string, args ...string) *scheduler.Process {
	t.Helper()
	require.NoError(t, c.InstallGuard(t.Context(), admissionregistrationv1.Fail))
	process, err := c.StartGuard(t.Context(), name, args...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, process.Err(), "the guard ended although nobody asked it to")
		require.NoError(t, c.RemoveGuard(context.WithoutCancel(t.Context())))
		require.NoError(t, process.Stop())
	})
	return process
}

// GuardArgs returns the arguments of a scheduler that is the guard as well, at a port that was free
// a moment ago.
func GuardArgs() ([]string, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, fmt.Errorf("find a port for the guard: %w", err)
	}
	return []string{
		"--guard", "--guard-register=url", "--guard-bind-address=127.0.0.1",
		fmt.Sprintf("--guard-secure-port=%d", address.Port),
	}, nil
}

// RemoveGuard makes API servers stop asking guards.
func (c *Cluster) RemoveGuard(ctx context.Context) error {
	return c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, registration.Name, metav1.DeleteOptions{})
}
