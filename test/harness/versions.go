package harness

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// create creates an object; a namespaced one in the namespace. Where the server does not
// have it in v1, the typed client converts it, which Objects cannot.
func (c *Cluster) create(ctx context.Context, namespace string, object runtime.Object) error {
	if api.Of(c.Client) == nil {
		return c.Objects.Create(ctx, namespace, object)
	}
	object = unsaved(namespace, object)
	if c.hasAlpha2() {
		if created, err := c.createAlpha2(ctx, namespace, object); created {
			return err
		}
	}
	var err error
	api, options := c.Client.ResourceV1(), metav1.CreateOptions{}
	switch o := object.(type) {
	case *corev1.Pod: // Up to 1.30, they name their claims in another way.
		_, err = c.Client.CoreV1().Pods(namespace).Create(ctx, o, options)
	case *resourceapi.ResourceClaim:
		_, err = api.ResourceClaims(namespace).Create(ctx, o, options)
	case *resourceapi.ResourceClaimTemplate:
		_, err = api.ResourceClaimTemplates(namespace).Create(ctx, o, options)
	case *resourceapi.DeviceClass:
		_, err = api.DeviceClasses().Create(ctx, o, options)
	case *resourceapi.ResourceSlice:
		_, err = api.ResourceSlices().Create(ctx, o, options)
	default:
		return c.Objects.Create(ctx, namespace, object)
	}
	return err
}

// unsaved is an object as a server takes it, see builder.Unsaved.
func unsaved(namespace string, object runtime.Object) runtime.Object {
	switch o := object.DeepCopyObject().(type) {
	case *resourceapi.DeviceClass:
		return builder.Unsaved("", o)
	case *resourceapi.ResourceSlice:
		return builder.Unsaved("", o)
	case *resourceapi.ResourceClaim:
		return builder.Unsaved(namespace, o)
	case *resourceapi.ResourceClaimTemplate:
		return builder.Unsaved(namespace, o)
	case *corev1.Pod:
		return builder.Unsaved(namespace, o)
	default:
		return object
	}
}

// delete is the reverse of create.
func (c *Cluster) delete(ctx context.Context, namespace string, object runtime.Object) error {
	if api.Of(c.Client) == nil {
		return c.Objects.Delete(ctx, namespace, object)
	}
	api, options := c.Client.ResourceV1(), metav1.DeleteOptions{}
	switch o := object.(type) {
	case *resourceapi.ResourceClaim:
		return api.ResourceClaims(namespace).Delete(ctx, o.Name, options)
	case *resourceapi.ResourceClaimTemplate:
		return api.ResourceClaimTemplates(namespace).Delete(ctx, o.Name, options)
	case *resourceapi.DeviceClass:
		return api.DeviceClasses().Delete(ctx, o.Name, options)
	case *resourceapi.ResourceSlice:
		return api.ResourceSlices().Delete(ctx, o.Name, options)
	default:
		return c.Objects.Delete(ctx, namespace, object)
	}
}
