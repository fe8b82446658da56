package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

func claimsInAlpha3(client kubernetes.Interface, namespace string) backend[resourceapi.ResourceClaim, resourceapi.ResourceClaimList] {
	claims := kind[resourceapi.ResourceClaim, resourceapi.ResourceClaimList]{name: claimResource}
	alpha3 := newAlpha3(client)
	return inAlpha(claims, alpha3, newExactClaims(alpha3, namespace))
}

// A claim is written back exactly as it was read, including the text of numbers: the server treats a claim's spec and
// allocation as changed if any byte of parameters differs.
func TestV1alpha3OnTheWire(t *testing.T) {
	t.Parallel()
	stored, err := os.ReadFile("testdata/v1alpha3/claim.json")
	require.NoError(t, err)
	var path, sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPut {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			path, sent = r.URL.Path, string(body)
		}
		_, _ = w.Write(stored)
	}))
	t.Cleanup(server.Close)
	// The server is behind a proxy, and the client set speaks protobuf.
	client, err := kubernetes.NewForConfig(configOf(server, "/behind/proxy", "application/vnd.kubernetes.protobuf"))
	require.NoError(t, err)
	claims := claimsInAlpha3(client, "default")
	claim, err := claims.Get(t.Context(), "training", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, conversion.ByController, conversion.AlphaClaimOf(claim).Allocator)
	require.Equal(t, "resource.k8s.io/v1alpha3", claim.ManagedFields[0].APIVersion, "who has written what can be seen")
	require.Contains(t, string(claim.ManagedFields[0].FieldsV1.GetRawBytes()), "f:allocation")
	claim.Status.ReservedFor = nil
	_, err = claims.(statusBackend[resourceapi.ResourceClaim]).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, "/behind/proxy/apis/resource.k8s.io/v1alpha3/namespaces/default/resourceclaims/training/status", path)
	require.Contains(t, sent, `"apiVersion":"resource.k8s.io/v1alpha3"`)
	require.Contains(t, sent, `"kind":"ResourceClaim"`)
	require.Contains(t, sent, `"parameters":{"sharing":"none","kind":"GPUConfig","limit":1.50}`)
	require.Contains(t, sent, `"controller":"controller.example.com"`)
	require.Contains(t, sent, `"deallocationRequested":true`)
	require.Contains(t, sent, `"resourceVersion":"4711"`)
	require.NotContains(t, sent, conversion.Annotation)
	require.NotContains(t, sent, `"reservedFor"`)
}

func TestOlderClientSharesTheLimitOfRequests(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1", QPS: 7, Burst: 9})
	require.NoError(t, err)
	older, err := newOtherClient(client, v1alpha3.GroupVersion, alpha3Scheme)
	require.NoError(t, err)
	require.Same(t, client.ResourceV1().RESTClient().GetRateLimiter(), older.GetRateLimiter())

	_, err = newOtherClient(fake.NewClientset(), v1alpha3.GroupVersion, alpha3Scheme)
	require.ErrorContains(t, err, "no connection")
	list, err := claimsInAlpha3(fake.NewClientset(), "").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}
