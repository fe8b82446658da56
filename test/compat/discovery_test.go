package compat

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// noDiscovery answers that the group's versions cannot be read now, while it is on.
type noDiscovery struct {
	next http.RoundTripper
	on   *atomic.Bool
}

func (d noDiscovery) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, "/apis/"+resourceapi.GroupName+"/")
	if d.on.Load() && path != r.URL.Path && !strings.Contains(path, "/") {
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	return d.next.RoundTrip(r)
}

// Who does not know which versions there are begins with v1. What this release answers to
// a version that it does not have has to be understood: that is also how an upgrade is
// noticed.
func TestDiscoveryComesLate(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "discovery", 1)
	s.Devices(0, harness.Numbered(1)...)
	s.Create(builder.Claim("one", s.Want(1)).Obj())
	var off atomic.Bool
	off.Store(true)
	config := cluster.ControlPlane.AdminConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noDiscovery{next, &off} })
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	connected := api.Connect(t.Context(), client)
	served := api.Of(connected)
	require.NotNil(t, served, "nothing is known yet")
	require.Equal(t, api.V1, served.Version("resourceclaims"))

	off.Store(false)
	claim, err := connected.ResourceV1().ResourceClaims(s.Name).Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, s.Name, claim.Spec.Devices.Requests[0].Exactly.DeviceClassName)
	published, err := connected.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(published.Items, func(slice resourceapi.ResourceSlice) bool { return slice.Spec.Driver == s.Driver }))
	require.Equal(t, tested.claims, served.Version("resourceclaims"))
}
