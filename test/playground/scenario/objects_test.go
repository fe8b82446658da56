package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

func TestObjectsGoWhereTheirKindSays(t *testing.T) {
	t.Parallel()
	resource := func(group, plural string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	}
	for name, tc := range map[string]struct {
		object    runtime.Object
		name      string
		resource  schema.GroupVersionResource
		namespace string
	}{
		"pod":        {builder.AppPod("a", "app"), "a", resource("", "pods"), "ns"},
		"deployment": {builder.Deployment("a", 1), "a", resource("apps", "deployments"), "ns"},
		"job":        {builder.Job("a", 1), "a", resource("batch", "jobs"), "ns"},
		"claim":      {builder.Claim("a").Obj(), "a", resource("resource.k8s.io", "resourceclaims"), "ns"},
		"template":   {builder.Claim("a").Template(), "a", resource("resource.k8s.io", "resourceclaimtemplates"), "ns"},
		"node":       {fleet.Node("a", "pool", nil), "a", resource("", "nodes"), ""},
		"class":      {builder.Class("a"), "a", resource("resource.k8s.io", "deviceclasses"), ""},
		"slice":      {fleet.LocalSlice("d", "a").Obj(), "a-d", resource("resource.k8s.io", "resourceslices"), ""},
		"taint rule": {builder.TaintRule("a", "d", "p", "", "k", "NoSchedule"), "a", resource("resource.k8s.io", "devicetaintrules"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
			objects := NewObjects(client)
			before := tc.object.DeepCopyObject()
			require.NoError(t, objects.Create(t.Context(), "ns", tc.object))
			require.Equal(t, before, tc.object, "an object can be created again elsewhere")

			created, err := client.Resource(tc.resource).Namespace(tc.namespace).Get(t.Context(), tc.name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, tc.namespace, created.GetNamespace())

			require.ErrorContains(t, objects.Create(t.Context(), "ns", tc.object), "create "+created.GetKind()+" "+tc.name)
			require.NoError(t, objects.Delete(t.Context(), "ns", tc.object))
			err = objects.Delete(t.Context(), "ns", tc.object)
			require.True(t, apierrors.IsNotFound(err), "deleted once: %v", err)
		})
	}
}
