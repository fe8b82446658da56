package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// strictServer has one claim of v1alpha3 with parameters in the spec and in the allocation,
// and refuses to change their bytes.
type strictServer struct {
	t *testing.T
	// stored is the text of the parameters.
	stored string
	// version is the resourceVersion of the claim, unread says that it cannot be read as
	// protobuf.
	version string
	unread  bool
	// requests are the received requests: "PUT .../status".
	requests []string
	// accepted is the stored body.
	accepted string
}

const claimWithParameters = `{"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "default", "resourceVersion": %q},
	"spec": {"controller": "x", "devices": {"requests": [{"name": "r", "deviceClassName": "d"}], "config": [{"opaque": {"driver": "d", "parameters": {"other": 1}}}, {"opaque": {"driver": "d", "parameters": %s}}]}},
	"status": {"deallocationRequested": true, "allocation": {"devices": {"config": [{"source": "FromClaim", "opaque": {"driver": "d", "parameters": %s}}]}}}}`

func (s *strictServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	s.requests = append(s.requests, r.Method+" "+path)
	answer := func(status int, content any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(content) // Without white space, and escaped.
	}
	claim := json.RawMessage(fmt.Sprintf(claimWithParameters, s.version, s.stored, s.stored))
	switch {
	case r.Method == http.MethodPut:
		if manager := r.URL.Query().Get("fieldManager"); manager != "me" {
			s.t.Errorf("%s %s is of manager %q", r.Method, r.URL.Path, manager)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Error(err)
		}
		if strings.Count(string(body), `"parameters":`+s.stored) != 2 {
			invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceClaim"}, "c", nil).ErrStatus
			answer(http.StatusUnprocessableEntity, &invalid)
			return
		}
		s.accepted = string(body)
		answer(http.StatusOK, claim)
	case strings.Contains(r.Header.Get("Accept"), "protobuf") && !s.unread:
		s.sendProtobuf(w)
	default:
		answer(http.StatusOK, claim)
	}
}

func (s *strictServer) sendProtobuf(w http.ResponseWriter) {
	claim := &resourcev1beta1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: s.version}}
	opaque := func(text string) resourcev1beta1.DeviceConfiguration {
		return resourcev1beta1.DeviceConfiguration{Opaque: &resourcev1beta1.OpaqueDeviceConfiguration{Driver: "d", Parameters: runtime.RawExtension{Raw: []byte(text)}}}
	}
	claim.Spec.Devices.Config = []resourcev1beta1.DeviceClaimConfiguration{{DeviceConfiguration: opaque(`{"other":1}`)}, {DeviceConfiguration: opaque(s.stored)}}
	claim.Status.Allocation = &resourcev1beta1.AllocationResult{}
	claim.Status.Allocation.Devices.Config = []resourcev1beta1.DeviceAllocationConfiguration{{Source: "FromClaim", DeviceConfiguration: opaque(s.stored)}}
	raw, err := claim.Marshal()
	if err != nil {
		s.t.Error(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "resource.k8s.io/v1alpha3", Kind: "ResourceClaim"}, Raw: raw}).Marshal()
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_, _ = w.Write(append([]byte("k8s\x00"), envelope...))
}

// claim starts the server, and returns a client for its claims and the claim in v1.
func (s *strictServer) claim() (backend[resourceapi.ResourceClaim, resourceapi.ResourceClaimList], *resourceapi.ResourceClaim) {
	s.t.Helper()
	server := httptest.NewServer(s)
	s.t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(configOf(server, "", ""))
	require.NoError(s.t, err)
	claims := claimsInAlpha3(client, "default")
	claim, err := claims.Get(s.t.Context(), "c", metav1.GetOptions{})
	require.NoError(s.t, err)
	s.requests = nil
	return claims, claim
}

// The server refuses parameters that are not to the byte what it has stored, and does not
// show in JSON what that is.
func TestV1alpha3WritesParametersAsStored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stored string
		// later is the resourceVersion when the claim is written.
		later  string
		unread bool
		want   []string
		check  func(error) bool
	}{
		"compact":        {stored: `{"z":1.50,"a":1}`, want: []string{"PUT c"}},
		"white space":    {stored: `{"z": 1.50,  "a" :1}`, want: []string{"PUT c", "GET c", "PUT c"}},
		"HTML":           {stored: `{"a":"<&>"}`, want: []string{"PUT c", "GET c", "PUT c"}},
		"changed":        {stored: `{"a": 1}`, later: "8", want: []string{"PUT c", "GET c"}, check: apierrors.IsConflict},
		"cannot be read": {stored: `{"a": 1}`, unread: true, want: []string{"PUT c", "GET c"}, check: apierrors.IsInvalid},
	} {
		for _, subresource := range []string{"", "status"} {
			t.Run(name+subresource, func(t *testing.T) {
				t.Parallel()
				s := &strictServer{t: t, stored: tc.stored, version: "7", unread: tc.unread}
				claims, claim := s.claim()
				if tc.later != "" {
					s.version = tc.later
				}
				claim.Finalizers = []string{"example.com/mine"}
				want := tc.want
				var err error
				if subresource == "" {
					_, err = claims.Update(t.Context(), claim, metav1.UpdateOptions{FieldManager: "me"})
				} else {
					want = strings.Split(strings.ReplaceAll(strings.Join(want, ","), "PUT c", "PUT status"), ",")
					_, err = claims.(statusBackend[resourceapi.ResourceClaim]).UpdateStatus(t.Context(), claim, metav1.UpdateOptions{FieldManager: "me"})
				}
				require.Equal(t, want, s.requests)
				if tc.check != nil {
					require.True(t, tc.check(err), "%v", err)
					return
				}
				require.NoError(t, err)
				for _, kept := range []string{`"controller":"x"`, `"deallocationRequested":true`, `"example.com/mine"`, `"resourceVersion":"7"`, `"apiVersion":"resource.k8s.io/v1alpha3"`} {
					require.Contains(t, s.accepted, kept)
				}
			})
		}
	}
}

// A refusal for another reason stays what it is.
func TestV1alpha3RefusalsStay(t *testing.T) {
	t.Parallel()
	s := &strictServer{t: t, stored: `{"a": 1}`, version: "7"}
	claims, claim := s.claim()
	for i := range claim.Spec.Devices.Config {
		claim.Spec.Devices.Config[i].Opaque.Parameters.Raw = []byte(`{"a":2}`)
	}
	claim.Status.Allocation = nil
	_, err := claims.Update(t.Context(), claim, metav1.UpdateOptions{FieldManager: "me"})
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.Equal(t, []string{"PUT c", "GET c"}, s.requests, "there is no reason to try again")
}
