package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// put is the other way of writing beside the patches.
const put types.PatchType = "PUT"

// A writer writes to claims in one version of the API, in one way.
type writer struct {
	client  dynamic.ResourceInterface
	version string
	way     types.PatchType
}

func (w *writer) String() string {
	_, way, _ := strings.Cut(string(w.way), "/")
	return w.version + "/" + strings.Split(way+string(w.way), "+")[0]
}

// writers are of all kinds. They have no limit of requests.
func (s *tenant) writers(config *rest.Config) (all []*writer) {
	s.T.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	require.NoError(s.T, err)
	for _, version := range []string{"v1", "v1beta2", "v1beta1"} {
		claims := client.Resource(schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "resourceclaims"}).Namespace(s.Name)
		for _, way := range []types.PatchType{put, types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType} {
			all = append(all, &writer{claims, version, way})
		}
	}
	return all
}

// status gives a claim a status, of which nothing stays that is not said.
func (w *writer) status(ctx context.Context, claim string, status *resourceapi.ResourceClaimStatus, dryRun bool) error {
	return w.write(ctx, claim, "status", contentOf(status), dryRun, "status")
}

// decided does the same as status, and again while the guard says neither yes nor no: it may be unable to renew its Lease in time on a
// busy machine.
func (w *writer) decided(claim string, status *resourceapi.ResourceClaimStatus) (err error) {
	_ = wait.PollUntilContextTimeout(context.Background(), 200*time.Millisecond, harness.Patience, true, func(ctx context.Context) (bool, error) {
		err = w.status(ctx, claim, status, false)
		return err == nil || !strings.Contains(err.Error(), "failed calling webhook"), nil
	})
	return err
}

func contentOf(status *resourceapi.ResourceClaimStatus) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		panic(err) // Cannot be: it is a struct of the API.
	}
	return content
}

// label gives a claim a label, which is no write of its status.
func (w *writer) label(ctx context.Context, claim, value string) error {
	return w.write(ctx, claim, "metadata", map[string]any{"labels": map[string]any{"writer": value}}, false)
}

// write gives a claim's status, or some of its metadata, some content.
func (w *writer) write(ctx context.Context, claim, field string, content map[string]any, dryRun bool, subresources ...string) error {
	options := metav1.PatchOptions{FieldManager: "writer"}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if w.way == put {
		return w.replace(ctx, claim, field, content, metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager}, subresources...)
	}
	var body any
	switch w.way {
	case types.JSONPatchType:
		body = operations(field, content)
	case types.ApplyPatchType:
		options.Force = ptr.To(true)
		applied := map[string]any{"apiVersion": resourceapi.GroupName + "/" + w.version, "kind": "ResourceClaim", "metadata": map[string]any{}, field: maps.Clone(content)}
		applied["metadata"].(map[string]any)["name"] = claim
		body = applied
	default:
		body = map[string]any{field: withNulls(field, content)}
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = w.client.Patch(ctx, claim, w.way, patch, options, subresources...)
	return err
}

// replace is write by PUT.
func (w *writer) replace(ctx context.Context, claim, field string, content map[string]any, options metav1.UpdateOptions, subresources ...string) error {
	current, err := w.client.Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if field == "metadata" {
		maps.Copy(current.Object[field].(map[string]any), content)
	} else {
		current.Object[field] = content
	}
	_, err = w.client.Update(ctx, current, options, subresources...)
	return err
}

// operations are write as a JSON patch.
func operations(field string, content map[string]any) (all []map[string]any) {
	if field == "status" {
		return []map[string]any{{"op": "add", "path": "/status", "value": content}}
	}
	for key, value := range content {
		all = append(all, map[string]any{"op": "add", "path": "/" + field + "/" + key, "value": value})
	}
	return all
}

// withNulls says what of a status is not to stay.
func withNulls(field string, content map[string]any) map[string]any {
	merged := maps.Clone(content)
	if field != "status" {
		return merged
	}
	for _, key := range []string{"allocation", "reservedFor", "devices"} {
		if _, found := merged[key]; !found {
			merged[key] = nil
		}
	}
	return merged
}

// held is the status of a claim that has a device and is reserved, for others than pods: of those, kube-controller-manager
// takes care.
func (s *tenant) held(device string, consumers ...string) *resourceapi.ResourceClaimStatus {
	status := &resourceapi.ResourceClaimStatus{Allocation: s.allocation(device)}
	for _, name := range consumers {
		consumer := resourceapi.ResourceClaimConsumerReference{APIGroup: "example.com", Resource: "consumers", Name: name, UID: types.UID(name)}
		status.ReservedFor = append(status.ReservedFor, consumer)
	}
	return status
}

// TestWritesWithoutAnyGuard: with failurePolicy Fail, and no guard that can be reached, only new allocations are refused.
func TestWritesWithoutAnyGuard(t *testing.T) {
	s := newTenant(t, "unreachable", 1)
	writers := s.writers(cluster.ControlPlane.AdminConfig())
	name := func(i int) string { return fmt.Sprintf("claim-%02d", i) }
	for i, w := range writers {
		s.claims(name(i))
		// API servers do not know that several claims have one device.
		require.NoError(t, w.status(t.Context(), name(i), s.held("gpu-0", "one"), false), w)
	}
	s.claims("free")
	installGuards(t, admissionregistrationv1.Fail)
	refused := func(ctx context.Context, w *writer, dryRun bool) error {
		err := w.status(ctx, "free", s.held("gpu-0"), dryRun)
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("it was answered: %v", err)
		}
		return nil
	}
	s.Eventually("have an allocation refused", func(ctx context.Context) error { return refused(ctx, writers[0], true) })
	for i, w := range writers {
		t.Run(w.String(), func(t *testing.T) {
			ctx, claim := t.Context(), name(i)
			require.NoError(t, refused(ctx, w, true))
			require.NoError(t, refused(ctx, w, false))

			require.NoError(t, w.label(ctx, claim, "b"), "a label")
			reserved := s.held("gpu-0", "one", "two")
			require.NoError(t, w.status(ctx, claim, reserved, false), "a reservation")
			require.Len(t, s.stored(claim).Status.ReservedFor, 2)
			reported := reserved.DeepCopy()
			reported.Devices = []resourceapi.AllocatedDeviceStatus{{
				Driver: s.Driver, Pool: s.Node(0), Device: "gpu-0", Data: &runtime.RawExtension{Raw: []byte(`{"a":"b"}`)},
			}}
			require.NoError(t, w.status(ctx, claim, reported, false), "the status of a device")
			require.Len(t, s.stored(claim).Status.Devices, 1)
			require.NoError(t, w.status(ctx, claim, s.held("gpu-0"), false), "the end of all reservations")
			require.NoError(t, w.status(ctx, claim, &resourceapi.ResourceClaimStatus{}, true), "a release that is tried")
			require.NoError(t, w.status(ctx, claim, &resourceapi.ResourceClaimStatus{}, false), "a release")
			after := s.stored(claim)
			require.Equal(t, "b", after.Labels["writer"])
			require.Nil(t, after.Status.Allocation)
			require.Empty(t, after.Status.ReservedFor)
			require.Nil(t, s.stored("free").Status.Allocation)
		})
	}
}

// TestClaimsForEndlessCapacity: API servers accept a request for 1e999999999 of something, and ask about what such a claim is
// given for its next best alternative. The guard judges that as anything else, in each version.
func TestClaimsForEndlessCapacity(t *testing.T) {
	g, s := installGuards(t, admissionregistrationv1.Fail), newTenant(t, "endless-capacity", 2)
	g.start()
	g.decider()
	s.guarded()
	require.NoError(t, s.allocate(t.Context(), "holder", "gpu-1"))
	much, less := builder.Request("much", s.Name).Capacity("memory", "1e999999999"), builder.Request("less", s.Name)
	s.Create(builder.Claim("endless", builder.FirstAvailable("gpu", much, less)).Obj())
	for _, w := range s.writers(cluster.ControlPlane.AdminConfig()) {
		status := s.held("gpu-1")
		status.Allocation.Devices.Results[0].Request = "gpu/less"
		require.NoError(t, isDenied(w.decided("endless", status)), w)
		status.Allocation.Devices.Results[0].Device = "gpu-0"
		require.NoError(t, w.decided("endless", status), w)
		require.NoError(t, w.decided("endless", &resourceapi.ResourceClaimStatus{}), w)
	}
	require.NoError(t, s.releaseAll(t.Context()))
}
