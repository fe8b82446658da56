package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	conversionv1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	conversionv1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/guard"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// decider decides with a Book, for which there is one node with devices gpu-0 and gpu-1.
type decider struct {
	*guard.Book
	tenure time.Time
}

func (d *decider) Review(_ context.Context, r *guard.Request) guard.Answer {
	r.Confirmed = true
	return d.Book.Review(d.tenure, r)
}

func newDecider() *decider {
	slices := inventory.FromSlices([]*resourceapi.ResourceSlice{b.NodeSlice("a", b.Devices("gpu-0", "gpu-1")...).Obj()}, inventory.Options{})
	held := ledger.New()
	held.Pools = func(id inventory.PoolID) *inventory.NodePool {
		if pool := slices.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	d := &decider{guard.NewBook(held), time.Unix(1, 0)}
	d.Decide(d.tenure)
	return d
}

// reviewer answers all the same.
type reviewer guard.Answer

func (r reviewer) Review(context.Context, *guard.Request) guard.Answer { return guard.Answer(r) }

// answers serves a reviewer, as the product does, until the test ends.
func answers(t *testing.T, by Reviewer) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(NewHandler(by, nil))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// post sends a body and returns the answer.
func post(t *testing.T, server *httptest.Server, body io.Reader) (code int, answer string) {
	t.Helper()
	response, err := server.Client().Post(server.URL, "application/json", body)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func raw(t *testing.T, object any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	require.NoError(t, err)
	return text
}

// review returns an API server's review of an update of a claim, in v1.
func review(t *testing.T, before, after any) *admissionv1.AdmissionReview {
	t.Helper()
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "request-1", Operation: admissionv1.Update, SubResource: "status",
			Kind:      metav1.GroupVersionKind{Group: resourceapi.GroupName, Version: "v1", Kind: "ResourceClaim"},
			Resource:  metav1.GroupVersionResource{Group: resourceapi.GroupName, Version: "v1", Resource: "resourceclaims"},
			UserInfo:  authenticationv1.UserInfo{Username: "scheduler"},
			Object:    runtime.RawExtension{Raw: raw(t, after)},
			OldObject: runtime.RawExtension{Raw: raw(t, before)},
			Options:   runtime.RawExtension{Raw: raw(t, &metav1.UpdateOptions{FieldManager: write.FieldManager})},
		},
	}
}

// allocating is review for a claim that is to get gpu-0.
func allocating(t *testing.T, name string) *admissionv1.AdmissionReview {
	t.Helper()
	return review(t, b.Claim(name).Obj(), b.Claim(name).Allocated("a", "gpu-0"))
}

// ask sends a review and returns the decision.
func ask(t *testing.T, server *httptest.Server, asked *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	code, text := post(t, server, strings.NewReader(string(raw(t, asked))))
	require.Equal(t, http.StatusOK, code, text)
	answer := &admissionv1.AdmissionReview{}
	require.NoError(t, json.Unmarshal([]byte(text), answer))
	require.Equal(t, asked.TypeMeta, answer.TypeMeta)
	require.NotNil(t, answer.Response)
	require.Equal(t, asked.Request.UID, answer.Response.UID)
	return answer.Response
}

// scheme has the conversions from v1 to older versions.
var scheme = runtime.NewScheme()

func init() {
	for _, add := range []func(*runtime.Scheme) error{conversionv1beta1.AddToScheme, conversionv1beta2.AddToScheme, conversion.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
}

// in makes a claim of another version that has a device, "" for none.
var in = map[string]func(t *testing.T, name, device string) any{
	"v1": func(_ *testing.T, name, device string) any { return claim(name, device) },
	"v1beta2": func(t *testing.T, name, device string) any {
		return converted(t, claim(name, device), &resourcev1beta2.ResourceClaim{})
	},
	"v1beta1": func(t *testing.T, name, device string) any {
		return converted(t, claim(name, device), &resourcev1beta1.ResourceClaim{})
	},
	"v1alpha3": func(t *testing.T, name, device string) any {
		return converted(t, claim(name, device), &v1alpha3.ResourceClaim{})
	},
	"v1alpha2": func(_ *testing.T, name, device string) any {
		older := &v1alpha2.ResourceClaim{ObjectMeta: b.Claim(name).Obj().ObjectMeta, Spec: v1alpha2.ResourceClaimSpec{ResourceClassName: "gpu"}}
		if device != "" {
			older.Status.DriverName = b.Driver
			older.Status.Allocation = &v1alpha2.AllocationResult{ResourceHandles: []v1alpha2.ResourceHandle{{
				DriverName: b.Driver,
				StructuredData: &v1alpha2.StructuredResourceHandle{
					NodeName: "a", Results: []v1alpha2.DriverAllocationResult{{NamedResources: &v1alpha2.NamedResourcesAllocationResult{Name: device}}},
				},
			}}}
		}
		return older
	},
}

func claim(name, device string) *resourceapi.ResourceClaim {
	if device == "" {
		return b.Claim(name).Obj()
	}
	return b.Claim(name).Allocated("a", device)
}

func converted[From, To any](t *testing.T, from From, to To) To {
	t.Helper()
	require.NoError(t, scheme.Convert(from, to, nil))
	return to
}

func TestAllVersions(t *testing.T) {
	t.Parallel()
	for version, claim := range in {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := answers(t, newDecider())
			change := func(name, before, after string) *admissionv1.AdmissionResponse {
				t.Helper()
				asked := review(t, claim(t, name, before), claim(t, name, after))
				asked.Request.Resource.Version = version
				return ask(t, server, asked)
			}
			require.True(t, change("x", "", "gpu-0").Allowed)
			denied := change("y", "", "gpu-0")
			require.False(t, denied.Allowed)
			require.Contains(t, denied.Result.Message, "claim default/y was to get device gpu.example.com/a/gpu-0 but claim default/x holds it by now")
			require.True(t, change("y", "", "gpu-1").Allowed)
			require.True(t, change("x", "gpu-0", "").Allowed, "deallocation")
			require.True(t, change("x", "gpu-0", "gpu-0").Allowed)
			require.False(t, change("x", "gpu-0", "gpu-1").Allowed)
		})
	}
}

// kube-scheduler repeats the same write for some codes.
func TestDenialHasACode(t *testing.T) {
	t.Parallel()
	response := ask(t, answers(t, reviewer{Kind: guard.Denied, Reason: "somebody else has it"}), allocating(t, "x"))
	require.Equal(t, &metav1.Status{Status: "Failure", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "somebody else has it"}, response.Result)
	require.Empty(t, response.Warnings)
}

func TestUndecided(t *testing.T) {
	t.Parallel()
	server := answers(t, reviewer{Kind: guard.NotDeciding, Reason: "another one does"})
	code, text := post(t, server, strings.NewReader(string(raw(t, allocating(t, "x")))))
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "another one does")
}

func TestMarks(t *testing.T) {
	t.Parallel()
	server := answers(t, reviewer{})
	marked := func(change func(*admissionv1.AdmissionRequest)) []string {
		t.Helper()
		asked := allocating(t, "x")
		change(asked.Request)
		response := ask(t, server, asked)
		require.True(t, response.Allowed)
		return response.Warnings
	}
	require.Equal(t, []string{write.Text}, marked(func(*admissionv1.AdmissionRequest) {}))
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"of others": func(r *admissionv1.AdmissionRequest) {
			r.Options.Raw = raw(t, &metav1.UpdateOptions{FieldManager: "kube-scheduler"})
		},
		"without name":   func(r *admissionv1.AdmissionRequest) { r.Options.Raw = raw(t, &metav1.UpdateOptions{}) },
		"without":        func(r *admissionv1.AdmissionRequest) { r.Options.Raw = nil },
		"no options":     func(r *admissionv1.AdmissionRequest) { r.Options.Raw = []byte(`["x"]`) },
		"no allocation":  func(r *admissionv1.AdmissionRequest) { r.Object = r.OldObject },
		"a deallocation": func(r *admissionv1.AdmissionRequest) { r.Object, r.OldObject = r.OldObject, r.Object },
	} {
		require.Empty(t, marked(change), name)
	}
}

func TestWhatIsNoQuestion(t *testing.T) {
	t.Parallel()
	server := answers(t, newDecider())
	changed := func(change func(*admissionv1.AdmissionReview)) string {
		asked := allocating(t, "x")
		change(asked)
		return string(raw(t, asked))
	}
	requested := func(change func(*admissionv1.AdmissionRequest)) string {
		return changed(func(r *admissionv1.AdmissionReview) { change(r.Request) })
	}
	before := func(change func(*resourceapi.ResourceClaim)) string {
		return requested(func(r *admissionv1.AdmissionRequest) {
			claim := b.Claim("x").Obj()
			change(claim)
			r.OldObject.Raw = raw(t, claim)
		})
	}
	consuming := func(quantity string) string {
		return requested(func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"status":{"allocation":{"devices":{"results":[{"ConsumedCapacity":{"memory":` + quantity + `,"memory":"1"}}]}}}}`)
		})
	}
	wanting := func(capacity string, path ...string) string {
		path = append(path, []string{"spec", "devices", "requests"}[len(path):]...)
		return requested(func(r *admissionv1.AdmissionRequest) {
			r.OldObject.Raw = fmt.Appendf(nil, `{"%s":{"%s":{"%s":[{"exactly":{"capacity":{"requests":{"%s":"1e-999999999"}}}}]}}}`, path[0], path[1], path[2], capacity)
		})
	}
	for name, tc := range map[string]struct{ body, want string }{
		"takes long to parse": {consuming(`"1e-999999999"`), `memory is "1e-999999999"`},
		"takes long, number":  {consuming(`1E-1001`), `memory is "1E-1001"`},
		"many digits":         {consuming(`"` + strings.Repeat("7", 100000) + `"`), "has more than 1000 digits"},
		"in a request":        {wanting("memory"), `memory is "1e-999999999"`},
		"in a folded request": {wanting("memory", "\u017fpec", "DEVICES", "REQUEST\u017f"), `memory is "1e-999999999"`},
		"many digits, deep":   {strings.Repeat("[", 200000) + strings.Repeat("7", 1000), "is no AdmissionReview"},
		"many digits, broken": {`{"a":{"b" 1e99999`, "is no AdmissionReview"},
		"nothing":             {"", "is no AdmissionReview"},
		"no JSON":             {"{", "is no AdmissionReview"},
		"deep":                {strings.Repeat("[", 20000), "is no AdmissionReview"},
		"deep object":         {`{"request":` + strings.Repeat(`{"a":`, 20000), "is no AdmissionReview"},
		"another type":        {`[1]`, "is no AdmissionReview"},
		"null":                {`null`, `a "" of version ""`},
		"other version":       {changed(func(r *admissionv1.AdmissionReview) { r.APIVersion = "admission.k8s.io/v1beta1" }), "of version admission.k8s.io/v1"},
		"other review":        {changed(func(r *admissionv1.AdmissionReview) { r.Kind = "ConversionReview" }), `a "ConversionReview"`},
		"without request":     {changed(func(r *admissionv1.AdmissionReview) { r.Request = nil }), "with a request"},
		"without UID":         {requested(func(r *admissionv1.AdmissionRequest) { r.UID = "" }), "the request has no UID"},
		"other kind":          {requested(func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "resourceslices" }), "UPDATE of resourceslices/status"},
		"other group":         {requested(func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "apps" }), `in group "apps"`},
		"not the status":      {requested(func(r *admissionv1.AdmissionRequest) { r.SubResource = "" }), "UPDATE of resourceclaims/ in"},
		"creation":            {requested(func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Create }), "CREATE of resourceclaims/status"},
		"deletion":            {requested(func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete }), "DELETE of resourceclaims/status"},
		"version of the API":  {requested(func(r *admissionv1.AdmissionRequest) { r.Resource.Version = "v7" }), `version "v7" of resource.k8s.io is not known`},
		"no claim":            {requested(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`7`) }), "read a claim of version v1"},
		"no object":           {requested(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }), "read a claim of version v1"},
		"no old object":       {requested(func(r *admissionv1.AdmissionRequest) { r.OldObject.Raw = nil }), "read a claim of version v1"},
		"claim without UID":   {before(func(c *resourceapi.ResourceClaim) { c.UID = "" }), "the claim as it was has no UID"},
		"without version":     {before(func(c *resourceapi.ResourceClaim) { c.ResourceVersion = "" }), "the claim as it was has no UID"},
		"without name":        {before(func(c *resourceapi.ResourceClaim) { c.Name = "" }), "the claim as it was has no UID"},
		"without namespace":   {before(func(c *resourceapi.ResourceClaim) { c.Namespace = "" }), "the claim as it was has no UID"},
		"too many devices":    {requested(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = raw(t, manyDevices()) }), "was to get 33 devices; the limit is 32"},
		"allocation is no such": {requested(func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw = []byte(`{"status":{"allocation":{"devices":{"results":"all"}}}}`)
		}), "read a claim of version v1"},
	} {
		code, text := post(t, server, strings.NewReader(tc.body))
		require.Equal(t, http.StatusBadRequest, code, "%s: %s", name, text)
		require.Contains(t, text, tc.want, name)
	}
	named := allocating(t, "y")
	named.Request.UID = "1e99999"
	require.True(t, ask(t, server, named).Allowed, "none of that holds anything, and names may look like quantities")
}

// only is the only version that is served.
type only api.Version

func (o only) MayServeClaims(version api.Version) bool { return version == api.Version(o) }

func TestVersionsThatAreNotServed(t *testing.T) {
	t.Parallel()
	handler := NewHandler(newDecider(), nil)
	handler.Served = only(api.V1)
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	require.True(t, ask(t, server, allocating(t, "x")).Allowed)
	older := review(t, in["v1alpha2"](t, "y", ""), in["v1alpha2"](t, "y", "gpu-1"))
	older.Request.Resource.Version = "v1alpha2"
	code, text := post(t, server, strings.NewReader(string(raw(t, older))))
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, text, "version v1alpha2, which the API server does not serve")
}

func manyDevices() *resourceapi.ResourceClaim {
	claim := b.Claim("x").Allocated("a")
	for i := range resourceapi.AllocationResultsMaxSize + 1 {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: b.Driver, Pool: "a", Device: "gpu-" + strconv.Itoa(i), AdminAccess: ptr.To(true)})
	}
	return claim
}

func TestOtherMethods(t *testing.T) {
	t.Parallel()
	server := answers(t, newDecider())
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		require.NoError(t, err)
		response, err := server.Client().Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode, method)
	}
}
