package rbac

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/manifests"
)

// registeredGuard is a guard that is in place as far as is to be seen: it is registered, and decides.
// Its Lease is the scheduler's own, which it may read.
func registeredGuard(t *testing.T, e *environment, name string) func(context.Context) error {
	ctx := t.Context()
	authority, _, err := cert.GenerateSelfSignedCertKey("nobody", nil, nil)
	require.NoError(t, err)
	config := registration.New(admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1"), CABundle: authority},
		manifests.Namespace+"/"+manifests.Name, admissionregistrationv1.Ignore)
	configurations := e.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Create(ctx, config, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, configurations.Delete(context.WithoutCancel(ctx), config.Name, metav1.DeleteOptions{}))
		})
	}
	token := e.newToken(t, name)
	return func(ctx context.Context) error {
		if err := e.decide(ctx); err != nil {
			return err
		}
		_, metrics, err := e.getMetrics(ctx, token)
		if err == nil && !strings.Contains(metrics, "quartermaster_guard_in_place 1") {
			err = errors.New("the scheduler does not know of the guard")
		}
		return err
	}
}

// decide has the holder of the scheduler's Lease decide like a guard.
func (e *environment) decide(ctx context.Context) error {
	leases := e.client.CoordinationV1().Leases(manifests.Namespace)
	lease, err := leases.Get(ctx, manifests.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:"Enforce"}}}`,
		election.DecidesAnnotation, ptr.Deref(lease.Spec.HolderIdentity, ""), election.ModeAnnotation)
	_, err = leases.Patch(ctx, manifests.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
