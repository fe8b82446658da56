package rbac

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/guard/election"
	"github.com/quartermaster-dra/quartermaster/internal/guard/registration"
	"github.com/quartermaster-dra/quartermaster/manifests"
)

// registeredGuard is a guard that is in place as far as is to be seen: it is registered, decides, and
// is asked about the allocation of the next pod. Its Lease is the scheduler's own, which it may
// read.
func registeredGuard(t *testing.T, e *environment, name string) func(context.Context) error {
	ctx := t.Context()
	configurations := e.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Get(ctx, registration.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		config := registration.New(assent(t), manifests.Namespace+"/"+manifests.Name, admissionregistrationv1.Ignore)
		_, err := configurations.Create(ctx, config, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, configurations.Delete(context.WithoutCancel(ctx), config.Name, metav1.DeleteOptions{}))
		})
	}
	bound := podWithDevice(t, e, name)
	token := e.newToken(t, name)
	return func(ctx context.Context) error {
		if err := errors.Join(e.decide(ctx), bound(ctx)); err != nil {
			return err
		}
		_, metrics, err := e.getMetrics(ctx, token)
		if err == nil && !strings.Contains(metrics, "quartermaster_guard_in_place 1") {
			err = errors.New("the scheduler does not know of the guard")
		}
		return err
	}
}

// assent starts a webhook that has no objections, and tells schedulers that it was asked.
func assent(t *testing.T) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Warnings: []string{write.Text}}
		_ = json.NewEncoder(w).Encode(review) // Who does not get it asks again.
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: certificate}
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
