package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The Lease is renewed whatever happens to the connection on which everything else goes.
func TestLeaseHasItsOwnConnection(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	from := make(map[string]string) // the connection, by path
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		from[r.URL.Path] = r.RemoteAddr
		w.Header().Set("Content-Type", "application/json")
		require.NoError(t, json.NewEncoder(w).Encode(&coordinationv1.Lease{}))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	o, _ := parse(t, "")
	config, err := o.Config(t.Context(), &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	require.NoError(t, err)
	for name, client := range map[string]kubernetes.Interface{"other": config.Client, "own": config.Leases} {
		_, err := client.CoordinationV1().Leases("guards").Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
	}
	path := "/apis/coordination.k8s.io/v1/namespaces/guards/leases/"
	require.NotEmpty(t, from[path+"own"])
	require.NotEqual(t, from[path+"other"], from[path+"own"])
}
