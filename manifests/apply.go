package manifests

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// fieldManager owns the fields that Apply sets (server-side apply).
const fieldManager = "quartermaster-manifests"

// identityKinds are the kinds that make up the scheduler's identity: who it is
// and what it may do.
var identityKinds = map[string]bool{
	"ServiceAccount":     true,
	"ClusterRole":        true,
	"ClusterRoleBinding": true,
	"Role":               true,
	"RoleBinding":        true,
}

// ApplyOptions lists what Apply leaves out.
type ApplyOptions struct {
	// DryRun has the API server do everything except store the objects.
	DryRun bool
	// RBACOnly applies the ServiceAccount with its roles and bindings only, for a
	// scheduler that runs outside the cluster under that identity.
	RBACOnly bool
}

// Apply sends the objects of an overlay to the API server by server-side apply,
// in the order of Render, and stops at the first that is refused. Applying again
// changes nothing. It takes over fields that others have changed.
func Apply(ctx context.Context, config *rest.Config, overlay string, options ApplyOptions) error {
	objects, err := Render(overlay)
	if err != nil {
		return err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("apply manifests of overlay %q: make a discovery client: %w", overlay, err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("apply manifests of overlay %q: make a client: %w", overlay, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient))
	for _, object := range objects {
		if options.RBACOnly && !identityKinds[object.GetKind()] {
			continue
		}
		if err := applyObject(ctx, mapper, dynamicClient, object, options.DryRun); err != nil {
			return fmt.Errorf("apply manifests of overlay %q: %s %s: %w", overlay, object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func applyObject(ctx context.Context, mapper meta.RESTMapper, client dynamic.Interface, object *unstructured.Unstructured, dryRun bool) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("find the resource of kind %s: %w", kind, err)
	}
	resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = resource.Apply(ctx, object.GetName(), object, options)
	return err
}
