package classic

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/pkg/builder"
)

// raw is a claim as the server has it, with fields that nobody here knows.
func raw(version, name string, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resourceapi.GroupName + "/" + version, "kind": "ResourceClaim",
		"metadata": map[string]any{"name": name, "namespace": "default", "uid": "uid-" + name},
		"spec":     map[string]any{"controller": "driver.example.com", "resourceClassName": "gpu"},
		"status":   status,
	}}
}

// rawAllocation is one for zone a.
func rawAllocation(version string, shareable bool) map[string]any {
	selector, err := runtime.DefaultUnstructuredConverter.ToUnstructured(builder.NodeSelector(zone, "a"))
	if err != nil {
		panic(err)
	}
	if version == "v1alpha3" {
		return map[string]any{"nodeSelector": selector, "controller": "driver.example.com"}
	}
	return map[string]any{"availableOnNodes": selector, "shareable": shareable, "resourceHandles": []any{map[string]any{"data": "opaque"}}}
}

func consumers(names ...string) []any {
	list := make([]any, 0, len(names))
	for _, name := range names {
		list = append(list, map[string]any{"resource": "pods", "name": name, "uid": "uid-" + name})
	}
	return list
}

type writerFixture struct {
	*Writer
	client    *fake.FakeDynamicClient
	resource  schema.GroupVersionResource
	conflicts int // to come
}

func newWriterFixture(version string, objects ...runtime.Object) *writerFixture {
	f := &writerFixture{resource: schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "resourceclaims"}}
	f.client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{f.resource: "ResourceClaimList"}, objects...)
	f.client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "status" {
			return true, nil, errors.New("only the status may be written")
		}
		if f.conflicts == 0 {
			return false, nil, nil
		}
		f.conflicts--
		return true, nil, apierrors.NewConflict(f.resource.GroupResource(), "c", errors.New("changed"))
	})
	f.Writer = &Writer{Claims: func(namespace string) dynamic.ResourceInterface {
		return f.client.Resource(f.resource).Namespace(namespace)
	}}
	return f
}

func (f *writerFixture) status(t *testing.T) map[string]any {
	t.Helper()
	object, err := f.client.Resource(f.resource).Namespace("default").Get(t.Context(), "c", metav1.GetOptions{})
	require.NoError(t, err)
	return object.Object["status"].(map[string]any)
}

func TestReserve(t *testing.T) {
	t.Parallel()
	var full []string
	for i := range ReservedForMaxSize {
		full = append(full, fmt.Sprintf("other-%d", i))
	}
	for name, test := range map[string]struct {
		version   string // v1alpha3 unless given
		exclusive bool
		status    map[string]any // beside the allocation
		elsewhere bool
		want      []any
		changed   string
	}{
		"nobody":                {want: consumers("me")},
		"others":                {status: map[string]any{"reservedFor": consumers("other")}, want: consumers("other", "me")},
		"this pod":              {status: map[string]any{"reservedFor": consumers("me", "other")}, want: consumers("me", "other")},
		"v1alpha2":              {version: "v1alpha2", status: map[string]any{"reservedFor": consumers("other"), "driverName": "d"}, want: consumers("other", "me")},
		"exclusive":             {version: "v1alpha2", exclusive: true, want: consumers("me")},
		"exclusive, used":       {version: "v1alpha2", exclusive: true, status: map[string]any{"reservedFor": consumers("other")}, changed: "cannot be shared"},
		"full":                  {status: map[string]any{"reservedFor": consumers(full...)}, changed: "reserved for 32 pods"},
		"deallocated":           {status: map[string]any{"allocation": nil}, changed: "allocation has been removed"},
		"about to be":           {status: map[string]any{"deallocationRequested": true, "reservedFor": consumers("me")}, changed: "about to be deallocated"},
		"allocated for another": {elsewhere: true, changed: "allocated for other nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			version := test.version
			if version == "" {
				version = "v1alpha3"
			}
			status := map[string]any{"allocation": rawAllocation(version, !test.exclusive), "unknown": "stays"}
			for field, value := range test.status {
				status[field] = value
				if value == nil {
					delete(status, field)
				}
			}
			f := newWriterFixture(version, raw(version, "c", status))
			f.conflicts = 2
			seen := "a"
			if test.elsewhere {
				seen = "b"
			}
			before := f.status(t)
			err := f.Reserve(t.Context(), attempt(t, nil, claim("c", with(ofController), allocatedIn(seen))).Claims[0], pod("me"))
			after := f.status(t)
			if test.changed != "" {
				require.ErrorIs(t, err, ErrChanged)
				require.ErrorContains(t, err, test.changed)
				require.Empty(t, cmp.Diff(before, after))
				return
			}
			require.NoError(t, err)
			before["reservedFor"] = test.want
			require.Empty(t, cmp.Diff(before, after), "everything else stays")
		})
	}
}

func TestReserveWhatIsGone(t *testing.T) {
	t.Parallel()
	c := attempt(t, nil, claim("c", with(ofController), allocatedIn("a"))).Claims[0]
	replaced := raw("v1alpha3", "c", map[string]any{"allocation": rawAllocation("v1alpha3", true)})
	replaced.SetUID("another")
	for _, f := range []*writerFixture{newWriterFixture("v1alpha3"), newWriterFixture("v1alpha3", replaced)} {
		require.ErrorIs(t, f.Reserve(t.Context(), c, pod("me")), ErrChanged)
		require.NoError(t, f.Unreserve(t.Context(), c, "uid-me"))
		require.NoError(t, f.RequestDeallocation(t.Context(), c, "uid-me", always))
	}
}

func TestReserveUnderConflicts(t *testing.T) {
	t.Parallel()
	f := newWriterFixture("v1alpha3", raw("v1alpha3", "c", map[string]any{"allocation": rawAllocation("v1alpha3", true)}))
	f.conflicts = maxConflicts
	err := f.Reserve(t.Context(), attempt(t, nil, claim("c", with(ofController), allocatedIn("a"))).Claims[0], pod("me"))
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.ErrorContains(t, err, "claim default/c: asked to reserve it for pod me")
	require.NotErrorIs(t, err, ErrChanged)
}

func TestUnreserve(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after []any }{
		"the last one":  {before: consumers("me"), after: nil},
		"one of many":   {before: consumers("x", "me", "y"), after: consumers("x", "y")},
		"not among any": {before: consumers("x"), after: consumers("x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newWriterFixture("v1alpha3", raw("v1alpha3", "c", map[string]any{"allocation": rawAllocation("v1alpha3", true), "reservedFor": test.before}))
			f.conflicts = 1
			require.NoError(t, f.Unreserve(t.Context(), attempt(t, nil, claim("c", with(ofController), allocatedIn("a"))).Claims[0], "uid-me"))
			want := map[string]any{"allocation": rawAllocation("v1alpha3", true)}
			if test.after != nil {
				want["reservedFor"] = test.after
			}
			require.Empty(t, cmp.Diff(want, f.status(t)))
		})
	}
}

func always() bool { return true }

func TestRequestDeallocation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reservedFor []any
		seen        string // the zone for which the claim was allocated
		withdrawn   bool
		requested   bool
	}{
		"unused":                {seen: "a", requested: true},
		"used by this pod":      {seen: "a", reservedFor: consumers("me"), requested: true},
		"used by others":        {seen: "a", reservedFor: consumers("me", "other")},
		"allocated for another": {seen: "b"},
		"not wanted any more":   {seen: "a", withdrawn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := map[string]any{"allocation": rawAllocation("v1alpha2", true)}
			if test.reservedFor != nil {
				status["reservedFor"] = test.reservedFor
			}
			f := newWriterFixture("v1alpha2", raw("v1alpha2", "c", status))
			want := f.status(t)
			if test.requested {
				delete(want, "reservedFor") // The server does not accept the request otherwise.
				want["deallocationRequested"] = true
			}
			require.NoError(t, f.RequestDeallocation(t.Context(), attempt(t, nil, claim("c", with(ofController), allocatedIn(test.seen))).Claims[0], "uid-me",
				func() bool { return !test.withdrawn }))
			require.Empty(t, cmp.Diff(want, f.status(t)))
		})
	}
}
